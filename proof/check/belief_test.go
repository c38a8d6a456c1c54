// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A holds from 1 s on, and B is granted the path at 2 s. Each case adds events; T is 4 s.
func TestHolderThatBelievesAfterNextGrantIsFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		lines   string
		beliefs int
		longest string
	}{
		{"notified before", `1.9s notified A expired`, 0, "0s"},
		{"notified after", `2.5s notified A expired`, 1, "500ms"},
		{"releases before, and the call returns after", "1.9s releasing A\n2.5s notified A released", 0, "0s"},
		{"releases before, and records its loss after", "1.9s releasing A\n2.5s notified A deadline", 0, "0s"},
		{"releases after, and records its loss later", "2.25s releasing A\n2.5s notified A deadline", 1, "250ms"},
		{"paused, and notified immediately", "1.5s paused A\n4s woke A\n4.1s notified A expired", 0, "0s"},
		{"paused, and notified late", "1.5s paused A\n4s woke A\n5.291666667s notified A expired", 1, "1s"},
		{"paused afterwards: it believed until then", "2.25s paused A\n4s woke A\n5s notified A expired", 1, "250ms"},
		{"killed before", `1.9s crashed A`, 0, "0s"},
		{"killed after: until then it believed", `3s crashed A`, 1, "1s"},
		{"killed after its release", "1.9s releasing A\n3s crashed A", 0, "0s"},
		{"killed while paused", "1.5s paused A\n3s crashed A", 0, "0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Grace, which extends the excuse of T/24, is 125 ms, as in a torture run.
			lines := "0s run\n0s asked A\n1s granted A\n1s asked B\n2s granted B\n" + c.lines + "\n9s releasing B\n9s notified B released\n10s end"
			events := parse(t, lines)
			numbers := check.Measure(events)
			require.Equal(t, c.beliefs, numbers.StaleBeliefs)
			require.Equal(t, c.longest, numbers.LongestStaleBelief.String())
			found := check.StaleBeliefs(events)
			require.Len(t, found, c.beliefs)
			for _, f := range found {
				require.Equal(t, check.SoleHolder, f.Rule)
			}
		})
	}
}

// An operator deletes B's node before B records its grant. That A still believes it holds the lock is no finding about A.
func TestGrantOnNodeThatOperatorDeletedIsNoFaultOfHolder(t *testing.T) {
	const lines = "0s run\n0s asked A\n1s granted A\n1s asked B\n1s asked C\n2s granted B\n%s releasing A\n%[1]s notified A released\n" +
		"4s granted C\n9s releasing B\n9s notified B released\n9s releasing C\n9s notified C released\n10s end"
	for _, c := range []struct {
		until          string
		beliefs, hands int
	}{{"1.5s", 0, 0}, {"3s", 0, 1}, {"5s", 1, 0}} {
		var events []history.Event
		for i, e := range parse(t, fmt.Sprintf(lines, c.until)) {
			if i == 1 {
				node := history.Event{Node: "/x/1-lock-0000000001", Session: 7, Zxid: 2e9}
				created, deleted := node, node
				created.Kind, deleted.Kind, deleted.Cause, deleted.Zxid = history.Created, history.Deleted, history.ByOperator, 2e9+1
				deleted.At = 15e8
				events = append(events, created, deleted)
			}
			events = append(events, e)
		}
		slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
		for i := range events {
			events[i].Line = i + 1
		}
		numbers := check.Measure(events)
		require.Equal(t, c.beliefs, numbers.StaleBeliefs, c.until)
		require.Equal(t, c.beliefs, numbers.LateNotifications, c.until)
		require.Len(t, check.StaleBeliefs(events), c.beliefs, c.until)
		// B's own end, after C was granted the path, is the operator's doing as well.
		require.Equal(t, 1+c.hands, numbers.ByOperator, c.until)
	}
}

// parse returns the history of lines "INSTANT KIND [CONTENDER [CAUSE]]", in the order of their instants.
func parse(t *testing.T, text string) []history.Event {
	t.Helper()
	var events []history.Event
	for line := range strings.Lines(text) {
		words := append(strings.Fields(line), "", "")
		if words[1] == "notified" {
			words[1] = string(history.Notified)
		}
		e := history.Event{Kind: history.Kind(words[1])}
		require.NoError(t, e.At.UnmarshalText([]byte(words[0])))
		switch e.Kind {
		case history.Run:
			e.Timeout, e.Tick, e.Grace = 4e9, 5e8, 125e6
		case history.End, history.Quorum, history.NoQuorum, leader:
		default:
			e.Contender, e.Cause = words[2], history.Cause(words[3])
			e.Path, e.Attempt = "/x", int(e.Contender[0])
			e.Contender = strings.ToUpper(e.Contender) // A's second attempt is a
		}
		if e.Kind == history.Granted {
			e.Token = history.ID(e.At)
		}
		switch e.Kind {
		case history.Paused, history.Woke, history.Crashed, history.Partitioned, history.Slowed, history.Healed, history.Closing, history.Expiring:
			e.Path, e.Attempt = "", 0
		default:
		}
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range events {
		events[i].Line = i + 1
	}
	return events
}
