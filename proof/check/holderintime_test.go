// SPDX-License-Identifier: Apache-2.0

package check_test

import (
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
	return inOrder(append(events,
		history.Event{At: at("1.995s"), Kind: history.Created, Node: first, Zxid: 1, Session: 1},
		history.Event{At: at("9.1s"), Kind: history.Created, Node: second, Zxid: 2, Session: 2},
		history.Event{At: at(gone), Kind: history.Deleted, Node: first, Zxid: 3, Session: 1, Cause: by},
		history.Event{At: at(granted), Kind: history.Deleted, Node: second, Zxid: 4, Session: 2, Cause: history.ByRequest},
	))
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
		"there was no quorum":                                 {"10s", "16s", "10.5s no-quorum\n15s quorum", 6 * time.Second, 1500 * time.Millisecond},
		"there was no quorum at the end":                      {"10s", "16s", "10.5s no-quorum", 6 * time.Second, 500 * time.Millisecond},
		"the leader that begins to serve counts the T anew":   {"18s", "18.5s", "10s crashed C\n11s no-quorum\n13s quorum", 8500 * time.Millisecond, 750 * time.Millisecond},
		"another contender was stopped, and was not the next": {"10s", "14s", "9s paused C\n29s woke C", 4 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			n := check.Measure(timed(t, c.gone, c.granted, history.ByTimeout, c.more))
			require.Equal(t, c.raw, time.Duration(n.Unavailable["/x"]))
			require.Equal(t, c.counted, time.Duration(n.Unexcused["/x"]))
		})
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
