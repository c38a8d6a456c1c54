// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// crowded is more nodes than one heartbeat checks.
const crowded = 200

// A session has 200 nodes, and a fault happens at each of many instants between its heartbeats.
func TestFaultAtNoInstantBreaksPromiseOfLargeSession(t *testing.T) {
	if replaying() {
		t.Skip("the flags select one plan")
	}
	for _, fault := range []string{
		"c0 cut", "c0 hold both", "c0 hold to-client", "c0 pause", "zk cut-from-leader 1", "zk stop 1", "zk depose", "c0 expire",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			atInstants(ifRace(97, 24), func(i int) {
				p := crowdPlan(sweepTimeout*time.Duration(i)/instants, holder{at: 1, faults: fault})
				runAndCheck(t, fmt.Sprintf("%s, instant %d", t.Name(), i), repeatFlags(p), p.Run)
			})
		})
	}
}

func crowdPlan(instant time.Duration, h holder) Plan {
	p := h.plan(instant)
	p.Crowd = crowded
	return p
}

// An operator deletes nodes of a session that has 200. The holders of these nodes are notified immediately, because the nodes
// are watched. No other claim is lost.
func TestDeletionAtNoInstantIsNotifiedLateOrEndsOtherClaims(t *testing.T) {
	if replaying() {
		t.Skip("the flags select one plan")
	}
	for _, n := range []int{1, 2, 7, 150} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			atInstants(ifRace(97, 12), func(i int) {
				p := crowdPlan(sweepTimeout*time.Duration(i)/instants, holder{at: 1, faults: fmt.Sprintf("c0 delete-crowd %d", n)})
				flags := fmt.Sprintf("-run %q", t.Name())
				runAndCheck(t, fmt.Sprintf("%s, instant %d", t.Name(), i), flags, func() ([]history.Event, error) {
					events, err := p.Run()
					return events, errors.Join(err, checkDeletions(events, n, sweepTimeout/6))
				})
			})
		})
	}
}

// checkDeletions returns an error unless each of n deletions by an operator ended its own claim in time, and no other claim
// was lost.
func checkDeletions(events []history.Event, n int, within time.Duration) error {
	nodes := map[int]string{} // of grants, by attempt
	gone := map[string]history.Instant{}
	notified := 0
	var errs []error
	for _, e := range events {
		switch {
		case e.Kind == history.Granted:
			nodes[e.Attempt] = e.Node
		case e.Kind == history.Deleted && e.Cause == history.ByOperator:
			gone[e.Node] = e.At
		case e.Kind == history.Notified && e.Cause == history.Removed:
			notified++
			if delay := time.Duration(e.At - gone[nodes[e.Attempt]]); delay > within {
				errs = append(errs, fmt.Errorf("%v: notified %v after its node was deleted", e, delay))
			}
		case e.Kind == history.Notified && e.Cause != history.GivenUp:
			errs = append(errs, fmt.Errorf("%v: lost, although its node was not deleted", e))
		}
	}
	if len(gone) != n || notified != n {
		errs = append(errs, fmt.Errorf("%d nodes were deleted and %d claims notified, want %d", len(gone), notified, n))
	}
	return errors.Join(errs...)
}
