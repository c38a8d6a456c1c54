// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// toDelete returns the nodes that are to be deleted now.
func toDelete(l *outstanding) []*Node {
	nodes, _ := l.due(time.Now())
	return nodes
}

// placeAt returns a node with its own name.
func placeAt(name string) *Node {
	p := NewNode("/l", 1, name)
	p.Path = "/l/" + name
	return p
}

func heldIn(l *outstanding) []*Node { return l.nextChecks(time.Now().Add(time.Hour), nil) }

func TestPlaceIsInTheLedgerFromBeforeItsCreateUntilItsDeletionIsConfirmed(t *testing.T) {
	l := newOutstanding()
	p := placeAt("n")
	l.enter(p)
	require.Equal(t, 1, len(l.all))
	require.True(t, l.joined(p), "the only one that is held")
	require.Equal(t, held, p.state)
	require.Empty(t, toDelete(l))
	l.deleteSoon(p)
	require.NotEqual(t, held, p.state)
	require.Equal(t, 1, len(l.all), "it is still to be deleted")
	require.Equal(t, []*Node{p}, toDelete(l))
	require.True(t, l.clear(p), "that is news")
	require.Empty(t, l.all)
	require.Empty(t, toDelete(l))
}

func TestOnlyTheFirstHeldPlaceIsTheOnlyOne(t *testing.T) {
	l := newOutstanding()
	a, b := placeAt("a"), placeAt("b")
	l.enter(a)
	l.enter(b)
	require.Empty(t, l.held)
	require.True(t, l.joined(a))
	require.False(t, l.joined(b))
	l.deleteSoon(a)
	l.deleteSoon(b)
	require.Empty(t, l.held)
	c := placeAt("c")
	l.enter(c)
	require.True(t, l.joined(c), "those that are to be deleted are not held")
}

func TestPlaceGivenUpWhoseCreateIsNeverAnsweredIsSwept(t *testing.T) {
	l := newOutstanding()
	p := placeAt("n")
	l.enter(p)
	l.deleteSoon(p)
	require.Equal(t, []*Node{p}, toDelete(l), "its outcome has to be found out")
	require.False(t, l.joined(p), "its caller has left it")
	require.Equal(t, []*Node{p}, toDelete(l), "found, and to be deleted")
	l.clear(p)
	require.Zero(t, len(l.all))
}

func TestPlaceWhoseOutcomeIsUnknownIsNotSweptWhileItIsWanted(t *testing.T) {
	l := newOutstanding()
	p := placeAt("n")
	l.enter(p)
	require.Empty(t, toDelete(l), "its owner is about to look for it")
	require.True(t, l.joined(p))
	require.Empty(t, toDelete(l))
}

func TestPlaceThatIsBeingReleasedIsNeitherCheckedNorSwept(t *testing.T) {
	l := newOutstanding()
	p := placeAt("n")
	l.enter(p)
	l.joined(p)
	l.beginDelete(p)
	require.Empty(t, l.held)
	require.Empty(t, heldIn(l))
	require.Empty(t, toDelete(l))
	require.Equal(t, 1, len(l.all))
	l.deleteSoon(p) // the release has failed
	require.Equal(t, []*Node{p}, toDelete(l))
}

func TestClearedPlaceStaysCleared(t *testing.T) {
	l := newOutstanding()
	p := placeAt("n")
	l.enter(p)
	l.joined(p)
	l.clear(p)
	require.False(t, l.clear(p), "that is known")
	l.deleteSoon(p)
	l.beginDelete(p)
	require.False(t, l.joined(p))
	require.Zero(t, len(l.all))
	require.Empty(t, l.held)
	require.Empty(t, toDelete(l))
	require.Equal(t, gone, p.state)
}

func TestNodeIsNotDeletedBeforeItsTime(t *testing.T) {
	l := newOutstanding()
	now := time.Now()
	early, kept := placeAt("early"), placeAt("kept")
	_, wait := l.due(now)
	require.Equal(t, time.Duration(math.MaxInt64), wait, "nothing to wait for")
	for _, p := range []*Node{early, kept} {
		l.enter(p)
		l.joined(p)
		l.deleteSoon(p)
	}
	kept.notBefore = now.Add(time.Second)
	due, wait := l.due(now)
	require.Equal(t, []*Node{early}, due, "one node that has to wait keeps no other")
	require.Equal(t, time.Second, wait)
	due, _ = l.due(now.Add(time.Second))
	require.ElementsMatch(t, []*Node{early, kept}, due)
}

func TestHeartbeatsCheckPlacesThatHaveStoodForAWhile(t *testing.T) {
	l := newOutstanding()
	old, recent := placeAt("old"), placeAt("recent")
	for _, p := range []*Node{old, recent} {
		l.enter(p)
		l.joined(p)
	}
	now := time.Now()
	old.since, recent.since = now.Add(-time.Second), now
	require.Equal(t, []*Node{old}, l.nextChecks(now, nil))
	l.deleteSoon(old)
	require.Equal(t, []*Node{recent}, l.nextChecks(now, nil), "rather a recent one than none")
}

// A model of the guarantee: in any order of events, a node that may exist is outstanding, and
// held nodes are counted.
func TestLedgerAgreesWithACountAfterAnyOrderOfEvents(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := newOutstanding()
		nodes := make([]*Node, 5)
		for i := range nodes {
			nodes[i] = placeAt(strconv.Itoa(i))
			l.enter(nodes[i])
		}
		var vouched []*Node // in that order
		for range 60 {
			p := nodes[r.IntN(len(nodes))]
			was := p.state
			switch r.IntN(5) {
			case 0:
				l.joined(p)
			case 1:
				l.deleteSoon(p)
			case 2:
				l.beginDelete(p)
			case 3:
				l.clear(p)
			case 4:
				l.verify(p)
				if !slices.Contains(vouched, p) {
					vouched = append(vouched, p)
				}
			}
			vouched = slices.DeleteFunc(vouched, func(p *Node) bool { return p.state != held })
			var youngest *Node
			if len(vouched) > 0 {
				youngest = vouched[len(vouched)-1]
			}
			require.Same(t, youngest, l.witness("/l", 1))
			require.Nil(t, l.witness("/l", 2))
			holding, known := 0, 0
			for _, p := range nodes {
				if p.state == held {
					holding++
				}
				if p.state != gone {
					known++
				}
			}
			require.Equal(t, holding, len(l.byPath), "seed %d", seed)
			require.Len(t, l.held, holding, "seed %d", seed)
			require.Equal(t, known, len(l.all), "seed %d", seed)
			if was == uncertain || was == unwanted {
				require.NotEqual(t, held, p.state, "seed %d: given up is given up", seed)
			}
			for _, p := range toDelete(l) {
				require.Contains(t, []state{uncertain, unwanted}, p.state, "seed %d", seed)
			}
		}
	}
}

func TestHeartbeatOfPathsOfAnyLengthIsBelowTheBound(t *testing.T) {
	for length := 400; length < 700; length++ {
		l := newOutstanding()
		for i := range MaxChecks {
			p := NewNode("/l", 1, "")
			p.Path = strings.Repeat("x", length-1) + string(rune('0'+i%10))
			l.enter(p)
			l.joined(p)
		}
		picked := l.nextChecks(time.Now().Add(time.Hour), nil)
		require.NotEmpty(t, picked)
		// Length of the frame, xid, operation; type, done, error, length of the path,
		// version of each; type, done, error at the end.
		size := 4 + 4 + 4 + len(picked)*(4+1+4+4+length+4) + 4 + 1 + 4
		require.LessOrEqual(t, size, maxCheckBytes, "%d paths of %d bytes", len(picked), length)
	}
}
