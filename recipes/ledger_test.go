// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func gone(p *place) bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// owed is what a sweep that begins now would delete.
func owed(l *ledger) []*place {
	places, _ := l.startSweep(time.Now())
	if len(places) > 0 {
		l.endSweep(time.Time{})
	}
	return places
}

// placeAt is a place whose node has a name of its own.
func placeAt(name string) *place {
	p := newPlace("/l", 1, name)
	p.path = "/l/" + name
	return p
}

func standingIn(l *ledger, before time.Time) []*place {
	places, _ := l.standing(before, maxChecks)
	return places
}

func heldIn(l *ledger) []*place { return standingIn(l, time.Now()) }

func TestPlaceIsInTheLedgerFromBeforeItsCreateUntilItsDeletionIsConfirmed(t *testing.T) {
	l := newLedger()
	p := placeAt("n")
	l.enter(p)
	require.Equal(t, 1, l.size())
	require.True(t, l.joined(p), "the only one that is held")
	require.True(t, l.isHeld(p))
	require.Empty(t, owed(&l))
	l.leave(p)
	require.False(t, l.isHeld(p))
	require.Equal(t, 1, l.size(), "owed is not gone")
	require.Equal(t, []*place{p}, owed(&l))
	require.False(t, gone(p))
	l.clear(p)
	require.Zero(t, l.size())
	require.True(t, gone(p))
	require.Empty(t, owed(&l))
}

func TestOnlyTheFirstHeldPlaceIsTheOnlyOne(t *testing.T) {
	l := newLedger()
	a, b := placeAt("a"), placeAt("b")
	l.enter(a)
	l.enter(b)
	require.False(t, l.anyHeld())
	require.True(t, l.joined(a))
	require.False(t, l.joined(b))
	l.leave(a)
	l.leave(b)
	require.False(t, l.anyHeld())
	c := placeAt("c")
	l.enter(c)
	require.True(t, l.joined(c), "those that are owed are not held")
}

func TestPlaceGivenUpWhoseCreateIsNeverAnsweredIsSwept(t *testing.T) {
	l := newLedger()
	p := placeAt("n")
	l.enter(p)
	l.leave(p)
	require.Equal(t, []*place{p}, owed(&l), "its outcome has to be found out")
	require.False(t, l.joined(p), "nobody waits for it any more")
	require.Equal(t, []*place{p}, owed(&l), "found, and to be deleted")
	l.clear(p)
	require.Zero(t, l.size())
}

func TestPlaceWhoseOutcomeIsUnknownIsNotSweptWhileItIsWanted(t *testing.T) {
	l := newLedger()
	p := placeAt("n")
	l.enter(p)
	require.Empty(t, owed(&l), "its owner is about to look for it")
	require.True(t, l.joined(p))
	require.Empty(t, owed(&l))
}

func TestPlaceThatIsBeingReleasedIsNeitherCheckedNorSwept(t *testing.T) {
	l := newLedger()
	p := placeAt("n")
	l.enter(p)
	l.joined(p)
	l.part(p)
	require.False(t, l.anyHeld())
	require.Empty(t, heldIn(&l))
	require.Empty(t, owed(&l))
	require.Equal(t, 1, l.size())
	l.leave(p) // the release has failed
	require.Equal(t, []*place{p}, owed(&l))
}

func TestClearedPlaceStaysCleared(t *testing.T) {
	l := newLedger()
	p := placeAt("n")
	l.enter(p)
	l.joined(p)
	l.clear(p)
	require.NotPanics(t, func() { l.clear(p) }, "gone is closed once")
	l.leave(p)
	l.part(p)
	require.False(t, l.joined(p))
	require.Zero(t, l.size())
	require.False(t, l.anyHeld())
	require.Empty(t, owed(&l))
	require.Equal(t, cleared, p.standing)
}

func TestSweepsDoNotOverlapAndKeepTheirDistance(t *testing.T) {
	l := newLedger()
	now := time.Now()
	p := placeAt("n")
	l.enter(p)
	l.joined(p)
	_, wait := l.startSweep(now)
	require.Equal(t, time.Duration(math.MaxInt64), wait, "nothing to wait for")
	l.leave(p)
	places, _ := l.startSweep(now)
	require.Len(t, places, 1)
	places, wait = l.startSweep(now)
	require.Empty(t, places, "one is under way")
	require.Equal(t, time.Duration(math.MaxInt64), wait)
	l.endSweep(now.Add(time.Second))
	places, wait = l.startSweep(now)
	require.Empty(t, places)
	require.Equal(t, time.Second, wait)
	places, _ = l.startSweep(now.Add(time.Second))
	require.Len(t, places, 1)
}

func TestHeartbeatsCheckPlacesThatHaveStoodForAWhile(t *testing.T) {
	l := newLedger()
	old, recent := placeAt("old"), placeAt("recent")
	for _, p := range []*place{old, recent} {
		l.enter(p)
		l.joined(p)
	}
	now := time.Now()
	old.since, recent.since = now.Add(-time.Second), now
	require.Equal(t, []*place{old}, standingIn(&l, now))
	l.leave(old)
	require.Equal(t, []*place{recent}, standingIn(&l, now), "rather a recent one than none")
}

// A model of the promise: whatever the order of events, a node that may exist is
// in the ledger, and what is held is counted.
func TestLedgerAgreesWithACountAfterAnyOrderOfEvents(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := newLedger()
		places := make([]*place, 5)
		for i := range places {
			places[i] = placeAt(strconv.Itoa(i))
			l.enter(places[i])
		}
		for range 40 {
			p := places[r.IntN(len(places))]
			was := p.standing
			switch r.IntN(4) {
			case 0:
				l.joined(p)
			case 1:
				l.leave(p)
			case 2:
				l.part(p)
			case 3:
				l.clear(p)
			}
			holding, known := 0, 0
			for _, p := range places {
				if p.standing == held {
					holding++
				}
				if p.standing != cleared {
					known++
				}
				require.Equal(t, p.standing == cleared, gone(p), "seed %d", seed)
			}
			require.Equal(t, holding, len(l.byPath), "seed %d", seed)
			require.Equal(t, holding > 0, l.anyHeld(), "seed %d", seed)
			require.Equal(t, known, l.size(), "seed %d", seed)
			if was == doubtful || was == leaving {
				require.NotEqual(t, held, p.standing, "seed %d: given up is given up", seed)
			}
			for _, p := range owed(&l) {
				require.Contains(t, []standing{doubtful, leaving}, p.standing, "seed %d", seed)
			}
		}
	}
}
