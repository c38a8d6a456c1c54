// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// In the history, b's request for two locks fails at 500 ms and leaves a node until 40 s; T is 4 s.
func TestNodeOfFailedRequestForSeveralLocksMustGoUnlessExcused(t *testing.T) {
	at := func(d time.Duration) history.Instant { return history.Instant(d) }
	event := func(at history.Instant, kind history.Kind) history.Event {
		return history.Event{At: at, Kind: kind, Contender: "b"}
	}
	request := event(at(10*time.Millisecond), history.Asked)
	request.Attempt, request.Path, request.Text = 9, "/k", "lock"
	answer := request
	answer.Text = ""
	answer.Kind, answer.At, answer.Error = history.Failed, at(35*time.Second), "lock: context deadline exceeded"
	for name, c := range map[string]struct {
		change func(events []history.Event) []history.Event
		broken bool
	}{
		"it stays":                               {func(e []history.Event) []history.Event { return e }, true},
		"it is gone after 8T, with little delay": {func(e []history.Event) []history.Event { return deletedAt(e, at(32*time.Second)) }, false},
		"the contender was paused": {func(e []history.Event) []history.Event {
			return append(e, event(at(time.Second), history.Paused), event(at(12*time.Second), history.Woke))
		}, false},
		"the contender was paused before": {func(e []history.Event) []history.Event {
			return append(e, event(at(100*time.Millisecond), history.Paused), event(at(200*time.Millisecond), history.Woke))
		}, true},
		"another request of the contender may have created it": {func(e []history.Event) []history.Event { return append(e, request, answer) }, false},
		"another request of the contender was never answered":  {func(e []history.Event) []history.Event { return append(e, request) }, false},
		"its session is not known to be the contender's": {func(e []history.Event) []history.Event {
			return slices.DeleteFunc(e, func(e history.Event) bool { return e.Attempt == 1 })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			events := c.change(slices.Clone(read(t, "bad")["several-locks-left-by-a-failed-request"]))
			slices.SortStableFunc(events[1:], func(a, b history.Event) int { return int(a.At - b.At) })
			var want []check.Rule
			if c.broken {
				want = []check.Rule{check.AllOrNothing}
			}
			require.Equal(t, want, check.Broken(check.History(events, check.Linearizable)))
		})
	}
}

// deletedAt moves the last deletion of a node, and what follows in the session.
func deletedAt(events []history.Event, at history.Instant) []history.Event {
	for i := range events {
		if e := &events[i]; e.Zxid == 7 {
			e.At = at
		}
	}
	return events
}

func TestOneOfSeveralLocksGrantedWithoutNodeIsReported(t *testing.T) {
	events := read(t, "bad")["several-locks-held-after-one-was-lost"]
	granted := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Granted })
	events[granted].Node += "0"
	require.Contains(t, check.Broken(check.History(events, check.Linearizable)), check.OwnNode)
}
