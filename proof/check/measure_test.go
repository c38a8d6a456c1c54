// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// tortured returns one path of a run on real servers. Its contenders are stopped and partitioned; one of them loses its
// claim and writes when it wakes.
func tortured(t *testing.T) []history.Event {
	t.Helper()
	return read(t, "good")["torture"]
}

// find returns the index of the first event, at or after an index, for which is returns true.
func find(t *testing.T, events []history.Event, from int, is func(e history.Event) bool) int {
	t.Helper()
	i := slices.IndexFunc(events[from:], is)
	require.NotEqual(t, -1, i)
	return from + i
}

// inOrder sorts events by their instants and numbers their lines.
func inOrder(events []history.Event) []history.Event {
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range events {
		events[i].Line = i + 1
	}
	return events
}

func TestGoodRunIsMeasured(t *testing.T) {
	n := check.Measure(tortured(t))
	require.Positive(t, n.Grants)
	require.GreaterOrEqual(t, n.Asked, n.Grants)
	require.Positive(t, n.Pauses)
	require.Positive(t, n.Ends[history.GivenUp])
	require.Positive(t, n.Ends[history.Deadline])
	require.Zero(t, n.LateNotifications)
	require.Zero(t, n.LongestDelay)
	require.Positive(t, n.Unscheduled)
	require.Greater(t, n.ShortestPause, history.Instant(time.Second), "it was stopped, and did not merely wait for a processor")
	require.Equal(t, map[check.Reason]int{check.Paused: 1}, n.StaleWriters)
	require.Zero(t, n.FallingTokens)
	require.Zero(t, n.NodesLeft)
	require.Zero(t, n.Unanswered)
	for path, longest := range n.Unavailable {
		require.Less(t, longest, history.Instant(10*time.Second), path)
		require.Positive(t, longest, path)
	}
}

func TestPlantedViolationIsFoundAndCounted(t *testing.T) {
	of := func(kind history.Kind) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == kind }
	}
	isNotified := func(cause history.Cause) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == history.Notified && e.Cause == cause }
	}
	for name, c := range map[string]struct {
		plant func(t *testing.T, events []history.Event) []history.Event
		rule  check.Rule
		count func(check.Numbers) int
	}{
		"a delayed notification": {
			func(t *testing.T, events []history.Event) []history.Event {
				t.Helper()
				notified := find(t, events, 0, isNotified(history.GivenUp))
				next := find(t, events, notified, of(history.Granted))
				// It lost its session, did not release, and was notified only after the path was granted again.
				events[notified].Cause, events[notified].At = history.Expired, events[next].At+history.Instant(20*time.Millisecond)
				attempt := events[notified].Attempt
				return slices.DeleteFunc(events, func(e history.Event) bool {
					return e.Attempt == attempt && (e.Kind == history.Releasing || e.Kind == history.Released)
				})
			},
			check.NotifiedFirst, func(n check.Numbers) int { return n.LateNotifications },
		},
		"a delayed notification of a holder that is killed afterwards": {
			func(t *testing.T, events []history.Event) []history.Event {
				t.Helper()
				notified := find(t, events, 0, isNotified(history.GivenUp))
				next := find(t, events, notified, of(history.Granted))
				attempt := events[notified].Attempt
				events = append(events, history.Event{
					Kind: history.Crashed, Contender: events[notified].Contender, At: events[next].At + history.Instant(20*time.Millisecond),
				})
				return slices.DeleteFunc(events, func(e history.Event) bool {
					return e.Attempt == attempt && (e.Kind == history.Notified || e.Kind == history.Releasing || e.Kind == history.Released)
				})
			},
			check.NotifiedFirst, func(n check.Numbers) int { return n.LateNotifications },
		},
		"an overlap": {
			func(t *testing.T, events []history.Event) []history.Event {
				t.Helper()
				// The second is granted while the first holds.
				first := find(t, events, 0, of(history.Granted))
				second := find(t, events, first+1, of(history.Granted))
				events[second].At = events[first].At + 1
				for i := range events {
					if e := &events[i]; e.Kind == history.Asked && e.Attempt == events[second].Attempt || e.Zxid == events[second].Token {
						e.At = min(e.At, events[first].At-1)
					}
				}
				return events
			},
			check.FirstInQueue, func(n check.Numbers) int { return n.LateNotifications },
		},
		"a falling token": {
			func(t *testing.T, events []history.Event) []history.Event {
				t.Helper()
				first := find(t, events, 0, of(history.Granted))
				second := find(t, events, first+1, of(history.Granted))
				events[second].Token = events[first].Token - 1
				return events
			},
			check.RisingTokens, func(n check.Numbers) int { return n.FallingTokens },
		},
		"a node left behind": {
			func(t *testing.T, events []history.Event) []history.Event {
				t.Helper()
				created := find(t, events, 0, func(e history.Event) bool { return e.Kind == history.Created && e.Session != 0 })
				node := events[created].Node
				return slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == history.Deleted && e.Node == node })
			},
			check.NothingLeft, func(n check.Numbers) int { return n.NodesLeft },
		},
		"a stale write that is accepted": {
			func(t *testing.T, events []history.Event) []history.Event {
				t.Helper()
				refused := find(t, events, 0, func(e history.Event) bool { return e.Kind == history.Wrote && !e.Accepted })
				events[refused].Accepted = true
				return events
			},
			check.FencedRegister, func(check.Numbers) int { return 1 }, // Numbers does not count it
		},
		"a request that is never answered": {
			func(t *testing.T, events []history.Event) []history.Event {
				t.Helper()
				failed := find(t, events, 0, of(history.Failed))
				return slices.Delete(events, failed, failed+1)
			},
			"", func(n check.Numbers) int { return n.Unanswered },
		},
	} {
		t.Run(name, func(t *testing.T) {
			events := inOrder(c.plant(t, tortured(t)))
			if c.rule != "" {
				require.Contains(t, check.Broken(check.History(events)), c.rule)
			}
			require.Positive(t, c.count(check.Measure(events)))
		})
	}
}

func TestMarginsCountRunningHoldersThatLostTheirClaim(t *testing.T) {
	session := func(at int, kind history.Kind, e history.Event) history.Event {
		e.At, e.Kind, e.Path, e.Attempt = history.Instant(at)*history.Instant(time.Millisecond), kind, "/l", max(e.Attempt, 1)
		if e.Contender == "" {
			e.Contender = "a"
		}
		return e
	}
	other := history.Event{Contender: "b", Attempt: 2}
	granted := other
	granted.Token = 9
	events := inOrder([]history.Event{
		{Kind: history.Run, Timeout: history.Instant(4 * time.Second), Tick: history.Instant(time.Second / 2)},
		session(1, history.Asked, history.Event{}),
		{At: 1e6, Kind: history.Created, Node: "/l/x-lock-0000000000", Zxid: 5, Session: 1},
		session(2, history.Granted, history.Event{Token: 5}),
		session(3, history.Asked, other),
		session(3000, history.Notified, history.Event{Cause: history.Deadline}),
		{At: 4200e6, Kind: history.Deleted, Node: "/l/x-lock-0000000000", Zxid: 8, Session: 1, Cause: history.ByTimeout},
		{At: 3e6, Kind: history.Created, Node: "/l/x-lock-0000000001", Zxid: 9, Session: 2},
		session(4210, history.Granted, granted),
	})
	n := check.Measure(events)
	require.Equal(t, 1, n.NotifiedBeforeExpiry.Of)
	require.Equal(t, history.Instant(1200*time.Millisecond), n.NotifiedBeforeExpiry.Worst)
	require.Equal(t, history.Instant(1210*time.Millisecond), n.NotifiedBeforeGrant.Worst)
	require.Equal(t, history.Instant(4207*time.Millisecond), n.LongestWait)
	require.Equal(t, map[string]history.Instant{"/l": history.Instant(1210 * time.Millisecond)}, n.Unavailable)

	paused := slices.Clone(events)
	paused = append(paused, history.Event{At: 2900e6, Kind: history.Paused, Contender: "a"}, history.Event{At: 4300e6, Kind: history.Woke, Contender: "a"})
	require.Zero(t, check.Measure(inOrder(paused)).NotifiedBeforeExpiry.Of)
}

// The path is granted again, the holder has not been notified, writes, and is then killed. Its crash does not excuse the earlier write.
func TestStaleWriteOfHolderThatIsKilledAfterwardsIsFound(t *testing.T) {
	events := parse(t, "0s run\n0s asked A\n1s granted A\n1s asked B\n2s granted B\n2.5s wrote B\n3s wrote A\n4s crashed A\n9s releasing B\n9s notified B released\n10s end")
	for i := range events {
		if e := &events[i]; e.Kind == history.Wrote {
			e.Accepted, e.Token = true, map[string]history.ID{"A": 1e9, "B": 2e9}[e.Contender]
		}
	}
	require.Contains(t, check.Broken(check.History(events)), check.BareRegister)
	require.Equal(t, map[check.Reason]int{check.Unexcused: 1}, check.Measure(events).StaleWriters)
}

// B was granted the path before A, with a newer token, as a library can whose tokens are not the order of its grants.
func TestStaleWriterCountsAsNotifiedOnlyIfItWasBeforeItWrote(t *testing.T) {
	for lines, want := range map[string]check.Reason{
		"4s wrote A\n5s releasing A\n5s notified A released":     check.Unexcused,
		"3.5s notified A expired\n4s wrote A":                    check.NotifiedAndWrote,
		"3.5s releasing A\n4s wrote A\n4.5s notified A released": check.NotifiedAndWrote,
		"3.5s releasing A\n4s wrote A\n4.5s notified A deadline": check.NotifiedAndWrote,
		"3.5s crashed A\n4s wrote A":                             check.NotifiedAndWrote,
	} {
		events := parse(t, "0s run\n0s asked A\n0s asked B\n1s granted B\n2s granted A\n2.5s wrote B\n"+lines+"\n9s releasing B\n9s notified B released\n10s end")
		for i := range events {
			if e := &events[i]; e.Kind == history.Wrote {
				e.Accepted, e.Token = true, map[string]history.ID{"A": 1e9, "B": 2e9}[e.Contender]
			}
		}
		require.Equal(t, map[check.Reason]int{want: 1}, check.Measure(events).StaleWriters, lines)
	}
}

// A records its grant after B, whose token is newer, and writes before it is notified.
func TestStaleWriterHasTheReasonForWhichBareRegisterExcusesIt(t *testing.T) {
	const pause = "0.5s paused A\n4.9s woke A\n"
	for _, c := range []struct {
		lines string
		cause history.Cause // of the deletion of A's node
		want  check.Reason
	}{
		{pause, history.ByTimeout, check.Paused},
		{"", history.ByOperator, check.ByOperator},
		{"", history.ByTimeout, check.Unexcused},
	} {
		events := parse(t, "0s run\n0s asked A\n0s asked B\n"+c.lines+"4.6s granted B\n4.7s wrote B\n4.9s granted A\n4.95s wrote A\n"+
			"5s notified A deadline\n9s releasing B\n9s notified B released\n10s end")
		for i := range events {
			if e := &events[i]; e.Kind == history.Wrote || e.Kind == history.Granted {
				e.Accepted, e.Token = e.Kind == history.Wrote, map[string]history.ID{"A": 1, "B": 2}[e.Contender]
			}
		}
		const first, second = "/x/1-lock-0000000000", "/x/1-lock-0000000001"
		events = inOrder(append(events,
			history.Event{At: 1e8, Kind: history.Created, Node: first, Zxid: 1, Session: 1},
			history.Event{At: 2e8, Kind: history.Created, Node: second, Zxid: 2, Session: 2},
			history.Event{At: 45e8, Kind: history.Deleted, Node: first, Zxid: 3, Session: 1, Cause: c.cause},
			history.Event{At: 91e8, Kind: history.Deleted, Node: second, Zxid: 4, Session: 2, Cause: history.ByRequest},
		))
		require.Equal(t, map[check.Reason]int{c.want: 1}, check.Measure(events).StaleWriters, c.want)
		isFound := slices.Contains(check.Broken(check.History(events)), check.BareRegister)
		require.Equal(t, c.want == check.Unexcused, isFound, c.want)
	}
}

// A contender records its grant after an operator has deleted its node and the path has been granted again. The rule excuses
// it, and Numbers counts only what the rule finds.
func TestGrantThatRuleExcusesIsNoFallingToken(t *testing.T) {
	events := read(t, "good")["deleted-by-operator"]
	first := find(t, events, 0, func(e history.Event) bool { return e.Kind == history.Granted })
	events[first].At = history.Instant(1100 * time.Millisecond)
	events = inOrder(events)
	require.Empty(t, check.History(events))
	require.Zero(t, check.Measure(events).FallingTokens)
}

func TestLeasesAreCountedByTheirEnds(t *testing.T) {
	require.Equal(t, check.Leases{
		Granted: 3, Released: 1, Expired: 1, Revoked: 1, OutlivedBy: check.Margin{Of: 1, Worst: history.Instant(472 * time.Millisecond), Line: 18},
	}, check.Measure(read(t, "good")["leases"]).Leases)
	require.Equal(t, 1, check.Measure(read(t, "bad")["lease-left-behind"]).Leases.Left)
	require.Equal(t, 1, check.Measure(read(t, "bad")["lease-expired-early"]).Leases.Renewals)
	require.Zero(t, check.Measure(read(t, "good")["two-contend"]).Leases)
}
