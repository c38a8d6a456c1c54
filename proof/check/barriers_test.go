// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

const ms = history.Instant(time.Millisecond)

// broken returns the rules that a history breaks, with a resolution of the servers' clocks.
func broken(blur history.Instant, events ...history.Event) []Rule {
	run := history.Event{Kind: history.Run, Timeout: 4000 * ms, Tick: 500 * ms, Blur: blur}
	return Broken(History(append([]history.Event{run}, events...)))
}

// barrierAt returns a history in which the barrier is set and removed at two instants, and a contender waits from 10 ms to 20 ms.
func barrierAt(set, removed history.Instant) []history.Event {
	return []history.Event{
		{At: set, Kind: history.Created, Node: "/b", Zxid: 1, Session: 1},
		{At: 10 * ms, Kind: history.Waiting, Contender: "a", Path: "/b"},
		{At: 20 * ms, Kind: history.Passed, Contender: "a", Path: "/b"},
		{At: removed, Kind: history.Deleted, Node: "/b", Zxid: 2, Session: 2, Cause: history.ByRequest},
	}
}

func TestBarrierMayBeSetOrRemovedWithinTheResolutionOfTheServersClocks(t *testing.T) {
	for name, events := range map[string][]history.Event{
		"set": barrierAt(9*ms+ms/2, 30*ms), "removed": barrierAt(0, 20*ms+ms/2),
	} {
		require.Empty(t, broken(ms, events...), name)
		require.Equal(t, []Rule{OpenBarrier}, broken(0, events...), name)
	}
	require.Equal(t, []Rule{OpenBarrier}, broken(ms, barrierAt(0, 30*ms)...))
}

// roundOf returns a history of a round of a and b. The nodes of both exist from createdAt; both enter at 10 ms. a leaves
// at 20 ms, at which b does not leave; its node is deleted at an instant.
func roundOf(createdAt, deletedAt history.Instant) []history.Event {
	const a, b = "/d/1-1/a", "/d/1-1/b"
	did := func(at history.Instant, kind history.Kind, who, node string) history.Event {
		e := history.Event{At: at, Kind: kind, Contender: who, Path: "/d", Node: node}
		if kind == history.Entered {
			e.Limit = 2
		}
		return e
	}
	return []history.Event{
		did(0, history.Entering, "a", ""), did(0, history.Entering, "b", ""),
		{At: createdAt, Kind: history.Created, Node: a, Zxid: 1, Session: 1},
		{At: createdAt, Kind: history.Created, Node: b, Zxid: 2, Session: 2},
		did(10*ms, history.Entered, "a", a), did(10*ms, history.Entered, "b", b),
		did(15*ms, history.Leaving, "a", a),
		{At: 16 * ms, Kind: history.Deleted, Node: a, Zxid: 3, Session: 1, Cause: history.ByRequest},
		did(20*ms, history.Left, "a", a),
		{At: deletedAt, Kind: history.Deleted, Node: b, Zxid: 4, Session: 2, Cause: history.ByTimeout},
	}
}

func TestRoundIsFullAndWholeWithinTheResolutionOfTheServersClocks(t *testing.T) {
	require.Empty(t, broken(0, roundOf(5*ms, 18*ms)...), "a member that died is not waited for")

	late := roundOf(10*ms+ms/2, 18*ms)
	require.Empty(t, broken(ms, late...))
	require.Equal(t, []Rule{FullRound}, broken(0, late...))
	require.Equal(t, []Rule{FullRound}, broken(ms, roundOf(13*ms, 18*ms)...))

	gone := roundOf(5*ms, 20*ms+ms/2)
	require.Empty(t, broken(ms, gone...))
	require.Equal(t, []Rule{WholeRound}, broken(0, gone...))
	require.Equal(t, []Rule{WholeRound}, broken(ms, roundOf(5*ms, 30*ms)...))
}

func TestMemberOfOneRoundThatEntersWhileAnotherIsInProgressIsAFinding(t *testing.T) {
	events := append(roundOf(5*ms, 30*ms),
		history.Event{At: 21 * ms, Kind: history.Entering, Contender: "c", Path: "/d"},
		history.Event{At: 21 * ms, Kind: history.Created, Node: "/d/1-2/c", Zxid: 10, Session: 3},
		history.Event{At: 22 * ms, Kind: history.Entered, Contender: "c", Path: "/d", Node: "/d/1-2/c", Limit: 1},
	)
	require.Contains(t, broken(ms, events...), FullRound)
}
