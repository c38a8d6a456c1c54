// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/check"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A holds from 1 s on, and B is granted the path at 2 s. What is between is up to the case; T is 4 s.
func TestWhoBelievesOnIsFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		lines   string
		beliefs int
		longest string
	}{
		{"told before", `1.9s told A expired`, 0, "0s"},
		{"told after", `2.5s told A expired`, 1, "500ms"},
		{"gives up before, and the call returns after", "1.9s releasing A\n2.5s told A released", 0, "0s"},
		{"paused, and told at once", "1.5s paused A\n4s woke A\n4.1s told A expired", 0, "0s"},
		{"paused, and told late", "1.5s paused A\n4s woke A\n5.291666667s told A expired", 1, "1s"},
		{"paused afterwards: while it was not, it believed", "2.25s paused A\n4s woke A\n5s told A expired", 1, "250ms"},
		{"killed before", `1.9s crashed A`, 0, "0s"},
		{"killed after: until then it believed", `3s crashed A`, 1, "1s"},
		{"killed after it had given up", "1.9s releasing A\n3s crashed A", 0, "0s"},
		{"killed while paused", "1.5s paused A\n3s crashed A", 0, "0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Grace, with which the excuse of T/24 gets longer, is 125 ms, as in a torture.
			lines := "0s run\n0s asked A\n1s granted A\n1s asked B\n2s granted B\n" + c.lines + "\n9s releasing B\n9s told B released\n10s end"
			events := tell(t, lines)
			numbers := check.Measure(events)
			require.Equal(t, c.beliefs, numbers.Outlived)
			require.Equal(t, c.longest, numbers.Longest.String())
			found := check.Believed(events)
			require.Len(t, found, c.beliefs)
			for _, f := range found {
				require.Equal(t, check.Alone, f.Rule)
			}
		})
	}
}

// B's node is deleted by hand before it is granted anything: that A believes on is no fault of A's.
func TestGrantOnANodeThatIsGoneByHandIsNobodyElsesFault(t *testing.T) {
	const lines = "0s run\n0s asked A\n1s granted A\n1s asked B\n1s asked C\n2s granted B\n%s releasing A\n%[1]s told A released\n" +
		"4s granted C\n9s releasing B\n9s told B released\n9s releasing C\n9s told C released\n10s end"
	for _, c := range []struct {
		until          string
		beliefs, hands int
	}{{"1.5s", 0, 0}, {"3s", 0, 1}, {"5s", 1, 0}} {
		var events []history.Event
		for i, e := range tell(t, fmt.Sprintf(lines, c.until)) {
			if i == 1 {
				node := history.Event{Node: "/x/1-lock-0000000001", Session: 7, Zxid: 2e9}
				created, deleted := node, node
				created.Kind, deleted.Kind, deleted.Cause, deleted.Zxid = history.Created, history.Deleted, history.ByHand, 2e9+1
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
		require.Equal(t, c.beliefs, numbers.Outlived, c.until)
		require.Equal(t, c.beliefs, numbers.Late, c.until)
		require.Len(t, check.Believed(events), c.beliefs, c.until)
		// B's own end, after C was granted the path, is by hand as well.
		require.Equal(t, 1+c.hands, numbers.ByHand, c.until)
	}
}

// tell makes a history of lines "INSTANT KIND [CONTENDER [CAUSE]]", in the order of their instants.
func tell(t *testing.T, text string) []history.Event {
	t.Helper()
	var events []history.Event
	for line := range strings.Lines(text) {
		words := append(strings.Fields(line), "", "")
		e := history.Event{Kind: history.Kind(words[1])}
		require.NoError(t, e.At.UnmarshalText([]byte(words[0])))
		switch e.Kind {
		case history.Run:
			e.Timeout, e.Tick, e.Grace = 4e9, 5e8, 125e6
		case history.End:
		default:
			e.Contender, e.Cause = words[2], history.Cause(words[3])
			e.Path, e.Attempt = "/x", int(e.Contender[0])
			e.Contender = strings.ToUpper(e.Contender) // A's further attempt is a
		}
		if e.Kind == history.Granted {
			e.Token = history.ID(e.At)
		}
		switch e.Kind {
		case history.Paused, history.Woke, history.Crashed, history.Partitioned, history.Healed:
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
