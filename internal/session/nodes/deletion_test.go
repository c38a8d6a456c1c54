// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

func TestNodeIsNotDeletedBeforeItsTime(t *testing.T) {
	s := NewSet()
	_, wait := dueAt(s, start)
	require.Equal(t, time.Duration(math.MaxInt64), wait, "nothing to wait for")
	early, kept := waitingIn(s, "early"), waitingIn(s, "kept")
	s.DeleteSoon(early)
	s.DeleteLater(kept, start.Add(time.Second))
	due, wait := dueAt(s, start)
	require.Equal(t, []*Node{early}, due, "one node that has to wait keeps no other")
	require.Equal(t, time.Second, wait)
	require.True(t, s.Need().Deletions)
	due, _ = dueAt(s, start.Add(time.Second))
	require.Equal(t, []*Node{kept}, due, "the other one is taken")
	require.True(t, s.Need().Deletions)
	stopped := waitingIn(s, "stopped")
	s.DeleteLater(stopped, start.Add(time.Second))
	s.EndGrace(stopped)
	due, _ = dueAt(s, start)
	require.Equal(t, []*Node{stopped}, due, "the holder's work has stopped")
	for _, n := range []*Node{early, kept, stopped} {
		s.MarkGone(n)
	}
	require.False(t, s.Need().Deletions)
}

func TestNodesThatMayBlockOtherContendersAreDeletedFirst(t *testing.T) {
	s := NewSet()
	on := func(parent, name string) *Node {
		n := NewNode(parent, 0, name)
		n.Path = parent + "/" + name
		s.Register(n)
		s.Joined(n)
		return n
	}
	alone := on("/a", "1")
	waiters := []*Node{on("/w", "1"), on("/w", "2")}
	var held []*Node
	for _, parent := range []string{"/h", "/i", "/j", "/k", "/l"} {
		n := on(parent, "1")
		require.NoError(t, s.Grant(n, &grant{}, start))
		held = append(held, n)
	}
	for _, n := range slices.Concat(waiters, held, []*Node{alone}) {
		s.DeleteSoon(n)
	}
	granted, others, _ := s.TakeDue(start)
	require.ElementsMatch(t, held, granted)
	require.ElementsMatch(t, waiters, others[:2])
	require.Equal(t, []*Node{alone}, others[2:])
}

func TestPauseBeforeTheNextAttemptToDeleteGrowsWithEachFailure(t *testing.T) {
	s := NewSet()
	n := waitingIn(s, "n")
	s.DeleteSoon(n)
	require.True(t, s.Postpone(n, false, 3*time.Second, start))
	require.Len(t, due(s), 1, "the connection ended: no server has answered")
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 16} {
		require.True(t, s.Postpone(n, true, 3*time.Second, start))
		s.EndGrace(n)
		_, wait := dueAt(s, start)
		require.Equal(t, pause*time.Second, wait)
	}
	require.True(t, s.Postpone(n, true, time.Hour, start))
	_, wait := dueAt(s, start)
	require.Equal(t, maxPause, wait)
	s.MarkGone(n)
	require.False(t, s.Postpone(n, true, time.Second, start))
	n = waitingIn(s, "m")
	s.End(sentinel.ErrClosed, false, start)
	require.False(t, s.Postpone(n, true, time.Second, start), "it goes with the session")
}

func TestOnlyTheDeletionOfANamedNodeCanBeUnsure(t *testing.T) {
	for kind, want := range map[Kind]bool{Contender: false, Named: true, Lease: false} {
		s := NewSet()
		n := registered(s, "n")
		n.Kind = kind
		s.MarkUnsure(n, true)
		require.Equal(t, want, s.IsUnsure(n))
		s.MarkUnsure(n, false)
		require.False(t, s.IsUnsure(n))
	}
}
