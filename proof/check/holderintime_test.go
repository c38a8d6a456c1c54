// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// timed returns a history of which T is 4 s and a tick 500 ms. C waits for 10 ms, holds, and is notified at 10 s, with its node "c" first in the
// queue until it is gone. A waits from 9 s on with its node behind it, and is granted the path at the end.
func timed(t *testing.T, gone, granted string, by history.Cause, more string) []history.Event {
	t.Helper()
	events := parse(t, "0s run\n0s quorum\n1.99s asked C\n2s granted C\n9s asked A\n10s notified C deadline\n"+granted+" granted A\n"+
		granted+" releasing A\n"+granted+" notified A released\n30s end\n"+more)
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == history.Granted && e.Contender == "C":
			e.Token, e.Session = 1, 1
		case e.Kind == history.Granted:
			e.Token, e.Session = 2, 2
		case e.Kind == history.Closing, e.Kind == history.Expiring:
			e.Session = 1
		case e.Kind == history.Partitioned:
			e.Text, e.Cause = string(e.Cause), ""
		default:
		}
	}
	at := func(text string) (i history.Instant) {
		require.NoError(t, i.UnmarshalText([]byte(text)))
		return i
	}
	const first, second = "/x/1-lock-0000000000", "/x/1-lock-0000000001"
	return led(inOrder(append(events,
		history.Event{At: at("1.995s"), Kind: history.Created, Node: first, Zxid: 1, Session: 1},
		history.Event{At: at("9.1s"), Kind: history.Created, Node: second, Zxid: 2, Session: 2},
		history.Event{At: at(gone), Kind: history.Deleted, Node: first, Zxid: 3, Session: 1, Cause: by},
		history.Event{At: at(granted), Kind: history.Deleted, Node: second, Zxid: 4, Session: 2, Cause: history.ByRequest},
	)))
}

// leader stands for the first transaction of a new leader, in the text of a history.
const leader history.Kind = "leader"

// led replaces each leader with a transaction on another path, and gives it and the later transactions a new epoch.
func led(events []history.Event) []history.Event {
	epoch := history.ID(0)
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == leader:
			epoch++
			*e = history.Event{
				At: e.At, Line: e.Line, Kind: history.Created, Node: fmt.Sprintf("/z/1-lock-%010d", epoch), Zxid: epoch << 32, Session: 3,
			}
		case e.Zxid != 0:
			e.Zxid += epoch << 32
		}
	}
	return events
}

func TestOnlyWhatNoLibraryCanShortenIsSubtractedFromTheTimeWithoutAHolder(t *testing.T) {
	for name, c := range map[string]struct {
		gone, granted, more string
		raw, counted        time.Duration
	}{
		"nothing happens to any of them":                      {"15s", "15.1s", "", 5100 * time.Millisecond, 5100 * time.Millisecond},
		"the holder was partitioned":                          {"13s", "13.1s", "8.5s partitioned C both\n29s healed C", 3100 * time.Millisecond, 100 * time.Millisecond},
		"the holder's session outlives its partition":         {"15s", "15.1s", "8.5s partitioned C both\n29s healed C", 5100 * time.Millisecond, 1850 * time.Millisecond},
		"the holder's session is kept alive by its requests":  {"15s", "15.1s", "8.5s partitioned C to-client\n29s healed C", 5100 * time.Millisecond, 100 * time.Millisecond},
		"the holder's partition heals, and its node stays":    {"15s", "15.1s", "8.5s partitioned C both\n11s healed C", 5100 * time.Millisecond, 4100 * time.Millisecond},
		"the holder crashed":                                  {"13s", "13.1s", "10s crashed C", 3100 * time.Millisecond, 100 * time.Millisecond},
		"the holder closed its client without a server":       {"15s", "15.1s", "10s closing C", 5100 * time.Millisecond, 350 * time.Millisecond},
		"an operator ended the holder's session":              {"15s", "15.1s", "10s expiring C", 5100 * time.Millisecond, 350 * time.Millisecond},
		"the holder was stopped":                              {"13s", "14s", "9s paused C\n20s woke C", 4 * time.Second, time.Second},
		"the next contender was stopped":                      {"10s", "14s", "9.5s paused A\n14s woke A", 4 * time.Second, 10 * time.Millisecond},
		"the next contender was slow":                         {"10s", "18s", "9.5s slowed A\n17s healed A", 8 * time.Second, time.Second},
		"there was no quorum":                                 {"10s", "16s", "10.5s no-quorum\n15s quorum\n15s leader", 6 * time.Second, time.Second},
		"the harness was not scheduled":                       {"10s", "16s", "10.5s no-quorum\n15s quorum", 6 * time.Second, 1500 * time.Millisecond},
		"one leader after the other counts anew":              {"10s", "24s", "11s no-quorum\n12s quorum\n12s leader\n15s no-quorum\n16s quorum\n16s leader\n19.5s no-quorum\n20s quorum\n20s leader", 14 * time.Second, 4 * time.Second},
		"a leader follows another immediately":                {"10s", "16s", "14s leader", 6 * time.Second, 4 * time.Second},
		"there was no quorum at the end":                      {"10s", "16s", "10.5s no-quorum", 6 * time.Second, 500 * time.Millisecond},
		"the leader that begins to serve counts the T anew":   {"18s", "18.5s", "10s crashed C\n11s no-quorum\n13s quorum\n13s leader", 8500 * time.Millisecond, 750 * time.Millisecond},
		"the new leader's first transaction comes later":      {"18s", "18.5s", "10s crashed C\n11s no-quorum\n13s quorum\n14s leader", 8500 * time.Millisecond, 750 * time.Millisecond},
		"the same leader does not count it anew":              {"18s", "18.5s", "10s crashed C\n11s no-quorum\n13s quorum", 8500 * time.Millisecond, 3750 * time.Millisecond},
		"another contender was stopped, and was not the next": {"10s", "14s", "9s paused C\n29s woke C", 4 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			n := check.Measure(timed(t, c.gone, c.granted, history.ByTimeout, c.more))
			require.Equal(t, c.raw, time.Duration(n.Unavailable["/x"]))
			require.Equal(t, c.counted, time.Duration(n.Unexcused["/x"]))
		})
	}
}

// A harness that is not scheduled for 200 ms looks like an ensemble without a quorum.
func TestTimeWithoutAHolderCountsAnewForNewLeadersOnly(t *testing.T) {
	const silences = "12s no-quorum\n12.2s quorum\n14s no-quorum\n14.2s quorum\n16s no-quorum\n16.2s quorum\n"
	for more, counted := range map[string]time.Duration{
		"":                        8100 * time.Millisecond,
		"14s leader":              4100 * time.Millisecond,
		silences:                  7500 * time.Millisecond,
		silences + "12.1s leader": 5500 * time.Millisecond,
		silences + "12.1s leader\n14.1s leader\n16.1s leader": 2 * time.Second,
	} {
		events := timed(t, "18s", "18.1s", history.ByTimeout, more)
		require.Equal(t, counted, time.Duration(check.Measure(events).Unexcused["/x"]), more)
		isFound := slices.Contains(check.Broken(check.History(events)), check.HolderInTime)
		require.Equal(t, counted >= 4750*time.Millisecond, isFound, "the limit is T and one and a half ticks: %v", counted)
	}
}

// own is how long C waits in timed, without an excuse.
const own = 10 * time.Millisecond

// bothOf returns timed with A's request as one for /x and /y, which is answered at 16 s. C's node is gone at 10 s; B's is in the queue of /y until
// ahead, with A's behind it from joined on, or A has none there.
func bothOf(t *testing.T, ahead, joined string, granted bool) []history.Event {
	t.Helper()
	events := timed(t, "10s", "16s", history.ByRequest, "")
	at := func(text string) (i history.Instant) {
		require.NoError(t, i.UnmarshalText([]byte(text)))
		return i
	}
	if !granted {
		events = slices.DeleteFunc(events, func(e history.Event) bool {
			return e.Contender == "A" && (e.Kind == history.Notified || e.Kind == history.Releasing)
		})
	}
	for i := range events {
		e := &events[i]
		switch {
		case e.Contender != "A":
			continue
		case e.Kind == history.Asked:
			e.Together = e.Attempt
		case e.Kind == history.Granted && !granted:
			*e = history.Event{At: e.At, Kind: history.Failed, Contender: "A", Path: e.Path, Attempt: e.Attempt, Error: "timed out"}
		}
		other := *e
		other.Path, other.Attempt = "/y", e.Attempt+1000
		if e.Kind == history.Granted {
			other.Token = 6
		}
		events = append(events, other)
	}
	events = append(events,
		history.Event{At: at("1s"), Kind: history.Opened, Contender: "A", Session: 2},
		history.Event{At: at("8s"), Kind: history.Created, Node: "/y/1-lock-0000000000", Zxid: 5, Session: 3},
		history.Event{At: at(ahead), Kind: history.Deleted, Node: "/y/1-lock-0000000000", Zxid: 7, Session: 3, Cause: history.ByRequest},
	)
	if joined != "" {
		events = append(events,
			history.Event{At: at(joined), Kind: history.Created, Node: "/y/1-lock-0000000001", Zxid: 6, Session: 2},
			history.Event{At: at("16s"), Kind: history.Deleted, Node: "/y/1-lock-0000000001", Zxid: 8, Session: 2, Cause: history.ByRequest},
		)
	}
	return inOrder(events)
}

func TestRequestForSeveralLocksExcusesOnlyWhileItWaitsForAnotherOne(t *testing.T) {
	for name, c := range map[string]struct {
		ahead, joined string
		counted       time.Duration
	}{
		"it is the first in both queues":              {"8.5s", "9.2s", 6 * time.Second},
		"another contender is ahead on the other":     {"16s", "9.2s", own},
		"another contender is ahead until 13 s":       {"13s", "9.2s", 3 * time.Second},
		"it joins the other queue at 14 s":            {"8.5s", "14s", 2 * time.Second},
		"its node on the other path is in no history": {"8.5s", "", own},
	} {
		for _, granted := range []bool{true, false} {
			if granted && c.joined == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s, granted %v", name, granted), func(t *testing.T) {
				n := check.Measure(bothOf(t, c.ahead, c.joined, granted))
				require.Equal(t, 6*time.Second, time.Duration(n.Unavailable["/x"]))
				require.Equal(t, c.counted, time.Duration(n.Unexcused["/x"]))
			})
		}
	}
	require.Contains(t, check.Broken(check.History(bothOf(t, "8.5s", "9.2s", true))), check.HolderInTime)
}

// Two requests could wait for each other, if the locks were not taken in the order of their paths.
func TestEmptyQueueIsExcusedOnlyWhileItsContenderWaitsForAnEarlierLock(t *testing.T) {
	for ahead, counted := range map[string]time.Duration{"8.5s": 6 * time.Second, "13s": 3 * time.Second, "16s": own} {
		events := slices.DeleteFunc(bothOf(t, ahead, "9.2s", false), func(e history.Event) bool {
			return e.Node == "/x/1-lock-0000000001" // A has not joined the queue of /x
		})
		require.Equal(t, 6*time.Second, time.Duration(check.Measure(inOrder(events)).Unexcused["/x"]), ahead)
		renamed(events, "/y", "/a")
		require.Equal(t, counted, time.Duration(check.Measure(inOrder(events)).Unexcused["/x"]), ahead)
	}
}

func TestFirstContenderIsNotExcusedWhileItWaitsForAnEarlierLock(t *testing.T) {
	events := bothOf(t, "16s", "9.2s", true)
	renamed(events, "/y", "/a")
	require.Equal(t, 6*time.Second, time.Duration(check.Measure(inOrder(events)).Unexcused["/x"]))
}

// renamed gives a queue another path.
func renamed(events []history.Event, from, to string) {
	for i, e := range events {
		if e.Path == from {
			events[i].Path = to
		}
		if rest, in := strings.CutPrefix(e.Node, from+"/"); in {
			events[i].Node = to + "/" + rest
		}
	}
}

func TestNodeOfAnUnknownContenderExcusesUnlessItsSessionIsStated(t *testing.T) {
	events := timed(t, "15s", "15.1s", history.ByTimeout, "")
	for i := range events {
		if e := &events[i]; e.Session == 1 {
			e.Session = 7
			if e.Kind == history.Granted {
				e.Token = 77 // on no node
			}
		}
	}
	for i := range events {
		if e := &events[i]; e.Kind == history.Granted && e.Contender == "C" {
			e.Session = 0
		}
	}
	require.Equal(t, 100*time.Millisecond, time.Duration(check.Measure(events).Unexcused["/x"]))
	events = append(events, history.Event{At: 1, Kind: history.Opened, Contender: "C", Session: 7})
	require.Equal(t, 5100*time.Millisecond, time.Duration(check.Measure(inOrder(events)).Unexcused["/x"]))
}

func TestTimeWithoutAHolderIsNotJudgedWhereTheQuorumIsNotRecorded(t *testing.T) {
	events := timed(t, "15s", "15.1s", history.ByTimeout, "")
	require.Contains(t, check.Broken(check.History(events)), check.HolderInTime)
	require.Equal(t, 1, check.Tested(events)[check.HolderInTime])
	for i, e := range events {
		if e.Kind == history.Quorum {
			events[i].Kind, events[i].Text = history.Note, "not recorded"
		}
	}
	require.NotContains(t, check.Broken(check.History(events)), check.HolderInTime)
	require.Zero(t, check.Tested(events)[check.HolderInTime])
	require.Nil(t, check.Measure(events).Unexcused)
}
