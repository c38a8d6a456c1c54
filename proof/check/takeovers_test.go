// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// takeover returns a history in which a second contender is granted a path 100 ms after the first one's node was deleted.
func takeover(run history.Event, releasing history.Instant) []history.Event {
	const ms, path = history.Instant(time.Millisecond), "/l"
	run.Kind, run.Timeout, run.Delay = history.Run, 4000*ms, 500*ms
	node := func(name string) string { return path + "/" + name + "-lock-0000000000" }
	event := func(at history.Instant, kind history.Kind, who string, attempt int, e history.Event) history.Event {
		e.At, e.Kind, e.Contender, e.Attempt, e.Path = at, kind, who, attempt, path
		return e
	}
	commit := func(at history.Instant, kind history.Kind, name string, zxid, session history.ID) history.Event {
		e := history.Event{At: at, Kind: kind, Node: node(name), Zxid: zxid, Session: session}
		if kind == history.Deleted {
			e.Cause = history.ByRequest
		}
		return e
	}
	events := []history.Event{
		run, event(0, history.Asked, "a", 1, history.Event{}), commit(ms, history.Created, "a", 1, 1),
		event(2*ms, history.Granted, "a", 1, history.Event{Node: node("a"), Session: 1, Token: 1}),
		event(3*ms, history.Asked, "b", 2, history.Event{}), commit(4*ms, history.Created, "b", 2, 2),
	}
	cause := history.ClientShut
	if releasing > 0 {
		cause = history.GivenUp
		events = append(events, event(releasing, history.Releasing, "a", 1, history.Event{}))
	}
	return append(events,
		event(max(releasing, 9*ms), history.Notified, "a", 1, history.Event{Cause: cause}), commit(10*ms, history.Deleted, "a", 3, 1),
		event(110*ms, history.Granted, "b", 2, history.Event{Node: node("b"), Session: 2, Token: 2}),
	)
}

func TestLockDelayIsThatOfOnePathIfTheRunNamesOne(t *testing.T) {
	count := func(events []history.Event) (findings int) {
		for _, f := range History(events) {
			if f.Rule == CrashOrClean {
				findings++
			}
		}
		return findings
	}
	require.Equal(t, 2, count(takeover(history.Event{}, 0)), "too early, and not fenced")
	require.Equal(t, 2, count(takeover(history.Event{Path: "/l"}, 0)))
	require.Zero(t, count(takeover(history.Event{Path: "/other"}, 0)))
	require.Equal(t, 1, Tested(takeover(history.Event{Path: "/l"}, 0))[CrashOrClean])
	require.Zero(t, Tested(takeover(history.Event{Path: "/other"}, 0))[CrashOrClean])
}

func TestReleaseIsCleanWithinTheResolutionOfTheServersClocks(t *testing.T) {
	const at = history.Instant(10*time.Millisecond + 300*time.Microsecond) // the log states 10 ms for the deletion after it
	blur := history.Event{Blur: history.Instant(time.Millisecond)}
	require.Zero(t, Tested(takeover(blur, at))[CrashOrClean])
	require.Equal(t, 1, Tested(takeover(history.Event{}, at))[CrashOrClean])
}
