// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

var start = time.Unix(1e9, 0)

// registered returns a contender's node of that name whose create was sent.
func registered(s *Set, name string) *Node {
	n := NewNode("/l", 1, name)
	n.Path = "/l/" + name
	s.Register(n)
	return n
}

// waitingIn returns a contender's node that waits.
func waitingIn(s *Set, name string) *Node {
	n := registered(s, name)
	s.Joined(n)
	return n
}

// grantedIn returns a contender's node on which something was granted at that time.
func grantedIn(s *Set, name string, at time.Time) *Node {
	n := waitingIn(s, name)
	_ = s.Grant(n, &grant{}, at)
	return n
}

// due returns the nodes that are to be deleted at start.
func due(s *Set) []*Node {
	nodes, _ := dueAt(s, start)
	return nodes
}

// dueAt takes the nodes that are due at that instant, and returns how long to wait for the next one.
func dueAt(s *Set, now time.Time) ([]*Node, time.Duration) {
	held, others, wait := s.TakeDue(now)
	return append(held, others...), wait
}

// checked returns the nodes that a heartbeat checks some time after start.
func checked(s *Set) []*Node { return s.NextChecks(start.Add(time.Hour), nil) }

func TestNodeIsOutstandingFromBeforeItsCreateUntilItsDeletionIsConfirmed(t *testing.T) {
	type event func(*Set, *Node)
	joined := func(s *Set, n *Node) { s.Joined(n) }
	begin := func(s *Set, n *Node) { s.BeginDelete(n) }
	leave, missing, handOver := (*Set).DeleteSoon, (*Set).MarkGone, (*Set).HandOver
	const (
		isOutstanding = 1 << iota
		isWaiting
		isDue
		isGone
	)
	for _, c := range []struct {
		name   string
		kind   Kind
		events []event
		want   int
	}{
		{"being created, and wanted", Contender, nil, isOutstanding},
		{"joined", Contender, []event{joined}, isOutstanding | isWaiting},
		{"joined twice", Contender, []event{joined, joined}, isOutstanding | isWaiting},
		{"left, so that its outcome has to be found out", Contender, []event{leave}, isOutstanding | isDue},
		{"left, and found", Contender, []event{leave, joined}, isOutstanding | isDue},
		{"left, and never created", Contender, []event{leave, missing}, isGone},
		{"no longer wanted", Contender, []event{joined, leave}, isOutstanding | isDue},
		{"no longer wanted, and deleted", Contender, []event{joined, leave, missing}, isGone},
		{"being deleted by its holder", Contender, []event{joined, begin}, isOutstanding},
		{"not deleted by its holder", Contender, []event{joined, begin, leave}, isOutstanding | isDue},
		{"not to be deleted by its holder and the owner", Contender, []event{joined, leave, begin}, isOutstanding | isDue},
		{"gone, whatever is reported later", Contender, []event{joined, missing, missing, leave, begin, joined}, isGone},
		{"of a lease", Lease, []event{joined}, isOutstanding},
		{"of a lease, and handed over", Lease, []event{joined, handOver, leave}, 0},
		{"of a lease, and left", Lease, []event{leave, joined}, isOutstanding | isDue},
		{"named", Named, []event{joined, begin}, isOutstanding},
		{"named, and left", Named, []event{leave}, isOutstanding | isDue},
	} {
		s := NewSet()
		n := registered(s, "n")
		n.Kind = c.kind
		for _, e := range c.events {
			e(s, n)
		}
		got := 0
		for fact, is := range map[int]bool{
			isOutstanding: s.Outstanding() == 1,
			isWaiting:     s.At("/l/n") == n && s.AnyWaiting() == n,
			isDue:         slices.Equal(due(s), []*Node{n}),
		} {
			if is {
				got |= fact
			}
		}
		select {
		case <-n.Gone():
			got |= isGone
		default:
		}
		require.Equal(t, c.want, got, c.name)
	}
}

func TestOnlyTheFirstWaitingNodeIsTheOnlyOne(t *testing.T) {
	s := NewSet()
	a, b := registered(s, "a"), registered(s, "b")
	require.True(t, s.Joined(a))
	require.False(t, s.Joined(b))
	s.DeleteSoon(a)
	s.DeleteSoon(b)
	require.True(t, s.Joined(registered(s, "c")), "those that are to be deleted do not wait")
}

func TestHeartbeatsCheckNodesThatHaveBeenGrantedForAWhile(t *testing.T) {
	s := NewSet()
	old, recent := grantedIn(s, "old", start), grantedIn(s, "recent", start.Add(time.Second))
	require.Equal(t, []*Node{old}, s.NextChecks(start.Add(time.Second), nil))
	require.Equal(t, []*Node{recent, old}, s.NextChecks(start.Add(time.Second), []*Node{recent}), "a contender waits for its proof")
	s.DeleteSoon(old)
	require.Equal(t, []*Node{recent}, s.NextChecks(start.Add(time.Second), []*Node{old}), "rather a recent one than none")
}

func TestHeartbeatsCheckNoWaitingNodeButThoseThatWantAProof(t *testing.T) {
	s := NewSet()
	n := waitingIn(s, "n")
	require.Empty(t, checked(s))
	require.Equal(t, []*Node{n}, s.NextChecks(start, []*Node{n}))
	holder := grantedIn(s, "holder", start)
	require.Equal(t, []*Node{holder}, checked(s))
}

func TestNodesBlockQueuesUnlessEachWaitsBehindAnother(t *testing.T) {
	s := NewSet()
	require.Equal(t, Need{}, s.Need())
	n := registered(s, "n")
	require.Equal(t, Need{Blocks: true}, s.Need(), "it may have been created")
	s.Joined(n)
	require.Equal(t, Need{Contenders: true, Blocks: true}, s.Need(), "it may be the first")
	s.SetBehind(n, true)
	require.Equal(t, Need{Contenders: true}, s.Need())
	m := waitingIn(s, "m")
	require.Equal(t, Need{Contenders: true, Blocks: true}, s.Need())
	s.SetBehind(m, true)
	s.SetBehind(m, true)
	s.SetBehind(n, false)
	require.Equal(t, Need{Contenders: true, Blocks: true}, s.Need(), "the contender ahead of n may be gone")
	s.SetBehind(n, true)
	s.DeleteSoon(n)
	require.Equal(t, Need{Contenders: true, Deletions: true, Blocks: true}, s.Need())
	s.MarkGone(n)
	s.SetBehind(n, true)
	require.Equal(t, Need{Contenders: true}, s.Need())
}

func TestGrantedNodesAreWatchedOnceUntilTheirWatchIsGone(t *testing.T) {
	s := NewSet()
	n := grantedIn(s, "n", start)
	require.Equal(t, []*Node{n}, s.Unwatched())
	require.Empty(t, s.Unwatched())
	s.Unwatch(n)
	require.Equal(t, []*Node{n}, s.Unwatched())
	s.UnwatchAll()
	require.Equal(t, []*Node{n}, s.Unwatched())
	s.BeginRewrite(n, []byte("mine"))
	require.True(t, s.Recognise(n, 1, []byte("mine")))
	require.Equal(t, []*Node{n}, s.Unwatched(), "the write has fired the watch")
}

func TestSessionRecognisesOnlyItsOwnWrite(t *testing.T) {
	s := NewSet()
	n := waitingIn(s, "n")
	require.True(t, s.Recognise(n, 0, nil))
	require.False(t, s.Recognise(n, 1, nil))
	require.False(t, s.MayBeRewritten(n))
	s.BeginRewrite(n, []byte("mine"))
	require.True(t, s.MayBeRewritten(n))
	require.False(t, s.Recognise(n, 1, []byte("other")))
	require.False(t, s.Recognise(n, 2, []byte("mine")))
	require.Zero(t, n.Version())
	require.True(t, s.Recognise(n, 1, []byte("mine")))
	require.EqualValues(t, 1, n.Version())
	require.False(t, s.Recognise(n, 0, nil))
}

// A grant ends with a cause, once.
type grant struct{ cause error }

func (g *grant) End(cause error) func() {
	if g.cause != nil {
		return nil
	}
	g.cause = cause
	return func() {}
}

func TestNodeIsLostOnceAndOnlyWhileItIsHeld(t *testing.T) {
	s := NewSet()
	released, free, n := waitingIn(s, "released"), waitingIn(s, "free"), waitingIn(s, "n")
	require.NoError(t, s.Grant(n, &grant{}, start))
	s.BeginDelete(released)
	was, _, _ := s.Lose(released)
	require.False(t, was)
	was, first, ender := s.Lose(free)
	require.True(t, was && first)
	require.Nil(t, ender)
	was, first, ender = s.Lose(n)
	require.True(t, was && first)
	require.Equal(t, &grant{}, ender)
	require.ErrorIs(t, s.Grant(n, &grant{}, start), sentinel.ErrDeleted)
	s.MarkGone(n)
	was, first, _ = s.Lose(n)
	require.True(t, was)
	require.False(t, first)
	require.ErrorIs(t, s.Grant(n, &grant{}, start), sentinel.ErrDeleted, "not even when its deletion is confirmed")
	require.Empty(t, s.TakeIf(func() bool { return true }, start))
}

func TestGrantsEndWithTheirSession(t *testing.T) {
	s := NewSet()
	a, b, ended := waitingIn(s, "a"), waitingIn(s, "b"), &grant{sentinel.ErrReleased}
	require.NoError(t, s.Grant(a, ended, start))
	require.NoError(t, s.Grant(b, &grant{}, start.Add(time.Second)))
	require.Equal(t, map[string]Usage{"/l": {Granted: 2, Oldest: start}}, s.Usage())
	require.Empty(t, s.TakeIf(func() bool { return false }, start))
	taken := s.TakeIf(func() bool { return true }, start)
	require.Empty(t, s.TakeIf(func() bool { return true }, start))
	nodes, reports := EndAll(taken, sentinel.ErrDeadline)
	require.Equal(t, []*Node{b}, nodes)
	require.Len(t, reports, 1)
	require.Equal(t, map[string]Usage{"/l": {Waiting: 2}}, s.Usage())

	require.NoError(t, s.Grant(a, &grant{}, start))
	require.Equal(t, start, s.KeptUntil())
	was, _, granted := s.Lose(b) // as the owner is about to have it deleted later
	require.True(t, was)
	require.Nil(t, granted)
	s.DeleteSoon(b)
	due, _ := dueAt(s, start.Add(-time.Millisecond))
	require.Empty(t, due, "its holder may still work")
	later := start.Add(time.Second)
	require.Len(t, s.End(sentinel.ErrClosed, false, later), 1)
	require.Equal(t, later, s.KeptUntil())
	require.ErrorIs(t, s.Grant(a, &grant{}, start), sentinel.ErrClosed)
	require.Empty(t, s.Usage())
	require.Zero(t, s.Outstanding())
	require.ElementsMatch(t, []*Node{a, b}, s.Unwanted("/l"), "the ensemble may not have deleted them")
	require.Empty(t, s.Unwanted("/m"))
	s.EndGrace(a)
	require.Equal(t, start, s.KeptUntil(), "its holder's work has stopped")
	s.End(sentinel.ErrSessionExpired, true, start)
	require.Empty(t, s.Unwanted("/l"), "they are gone")
}

// A model of the guarantee: in any order of events, a node that may exist is outstanding, and
// queued nodes are counted.
func TestSetAgreesWithACountAfterAnyOrderOfEvents(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := NewSet()
		nodes, entries := make([]*Node, 5), make([]*entry, 5)
		for i := range nodes {
			nodes[i] = registered(s, strconv.Itoa(i))
			entries[i] = s.all[nodes[i]]
		}
		var vouched []*Node // in that order
		for range 60 {
			i := r.IntN(len(nodes))
			n, was := nodes[i], entries[i].state
			switch r.IntN(6) {
			case 0:
				s.Joined(n)
			case 1:
				s.DeleteSoon(n)
			case 2:
				s.BeginDelete(n)
			case 3:
				s.MarkGone(n)
			case 4:
				_ = s.Grant(n, &grant{}, start)
			case 5:
				s.MarkVerified(n)
				if !slices.Contains(vouched, n) {
					vouched = append(vouched, n)
				}
			}
			vouched = slices.DeleteFunc(vouched, func(n *Node) bool { return s.At(n.Path) != n })
			var youngest *Node
			if len(vouched) > 0 {
				youngest = vouched[len(vouched)-1]
			}
			require.Same(t, youngest, s.Witness("/l", 1))
			require.Nil(t, s.Witness("/l", 2))
			known, queued := 0, make(map[state]int)
			for i, n := range nodes {
				if s.all[n] != entries[i] {
					continue // gone
				}
				known++
				queued[entries[i].state]++
			}
			require.Len(t, s.byPath, queued[waiting]+queued[granted], "seed %d", seed)
			require.Len(t, s.waiting, queued[waiting], "seed %d", seed)
			require.Len(t, s.granted, queued[granted], "seed %d", seed)
			require.Len(t, s.all, known, "seed %d", seed)
			if was == uncertain || was == unwanted {
				require.False(t, entries[i].state.isQueued(), "seed %d: given up is given up", seed)
			}
			for _, n := range due(s) {
				require.Contains(t, []state{uncertain, unwanted}, s.all[n].state, "seed %d", seed)
			}
		}
	}
}

func TestHeartbeatOfPathsOfAnyLengthIsBelowTheBound(t *testing.T) {
	for length := 400; length < 700; length++ {
		s := NewSet()
		for i := range MaxChecks {
			grantedIn(s, strings.Repeat("x", length-4)+string(rune('0'+i%10)), start)
		}
		picked := checked(s)
		require.NotEmpty(t, picked)
		// Length of the frame, xid, operation; type, done, error, length of the path,
		// version of each; type, done, error at the end.
		size := 4 + 4 + 4 + len(picked)*(4+1+4+4+length+4) + 4 + 1 + 4
		require.LessOrEqual(t, size, maxCheckBytes, "%d paths of %d bytes", len(picked), length)
	}
}
