// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// crowded is more nodes than one heartbeat checks.
const crowded = 200

// A session has 200 nodes, and things go wrong at instants that lie differently to its heartbeats.
func TestAtNoInstantDoesAFaultBreakAPromiseOfASessionOfManyNodes(t *testing.T) {
	if replays() {
		t.Skip("one plan was asked for")
	}
	for _, cut := range []string{
		"c0 cut", "c0 hold both", "c0 hold to-client", "c0 pause", "zk cut-from-leader 1", "zk stop 1", "zk depose", "c0 expire",
	} {
		t.Run(cut, func(t *testing.T) {
			t.Parallel()
			for i := 0; i < instants && !enough(); i += ifRace(97, 24) {
				tried.instants.Add(1)
				p := crowdPlan(sweepTimeout*time.Duration(i)/instants, holder{at: 1, cut: cut})
				judged(t, fmt.Sprintf("%s, instant %d", t.Name(), i), againOf(p), p.Run)
			}
		})
	}
}

func crowdPlan(instant time.Duration, h holder) Plan {
	p := h.plan(instant)
	p.Crowd = crowded
	return p
}

// An operator deletes nodes of a session that has 200. The claims whose nodes they were are notified immediately, as the
// other nodes are watched; no other claim is lost.
func TestAtNoInstantDoDeletedNodesOfASessionOfManyEndTheirClaimsLateOrOthers(t *testing.T) {
	if replays() {
		t.Skip("one plan was asked for")
	}
	for _, n := range []int{1, 2, 7, 150} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			for i := 0; i < instants && !enough(); i += ifRace(97, 12) {
				tried.instants.Add(1)
				p := crowdPlan(sweepTimeout*time.Duration(i)/instants, holder{at: 1, cut: fmt.Sprintf("c0 delete-crowd %d", n)})
				again := fmt.Sprintf("-run %q", t.Name())
				judged(t, fmt.Sprintf("%s, instant %d", t.Name(), i), again, func() ([]history.Event, error) {
					events, err := p.Run()
					return events, errors.Join(err, deletedAlone(events, n, sweepTimeout/6))
				})
			}
		})
	}
}

// deletedAlone returns what is wrong with a run in which n nodes were deleted by an operator and nothing else happened.
func deletedAlone(events []history.Event, n int, within time.Duration) error {
	nodes := map[int]string{} // of grants, by attempt
	gone := map[string]history.Instant{}
	told := 0
	var errs []error
	for _, e := range events {
		switch {
		case e.Kind == history.Granted:
			nodes[e.Attempt] = e.Node
		case e.Kind == history.Deleted && e.Cause == history.ByHand:
			gone[e.Node] = e.At
		case e.Kind == history.Told && e.Cause == history.Removed:
			told++
			if late := time.Duration(e.At - gone[nodes[e.Attempt]]); late > within {
				errs = append(errs, fmt.Errorf("%v: notified %v after its node was deleted", e, late))
			}
		case e.Kind == history.Told && e.Cause != history.GivenUp:
			errs = append(errs, fmt.Errorf("%v: its node was not deleted, and it was lost", e))
		}
	}
	if len(gone) != n || told != n {
		errs = append(errs, fmt.Errorf("%d nodes were deleted and %d claims notified, want %d", len(gone), told, n))
	}
	return errors.Join(errs...)
}
