// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"math"
	"slices"
	"sync"
	"time"
)

// A standing says what is known of a place's node.
type standing int

const (
	joining  standing = iota // the create is on its way
	doubtful                 // the create's outcome is unknown, and nobody waits for the place
	held                     // the node exists, and is waited with or held
	parting                  // the node exists, and its holder is deleting it
	leaving                  // the node may exist, and must go
	cleared                  // no node exists
)

// A ledger is every node that may exist in a session, from before its creation
// is asked for until its deletion is confirmed. Whatever goes wrong in between,
// a node that is in the ledger will be deleted; when the session is over, the
// ledger goes with it. Safe for concurrent use.
type ledger struct {
	mu       sync.Mutex // guards what follows, and place.standing
	places   map[*place]struct{}
	byPath   map[string]*place // those that are held
	sweeping bool
	notUntil time.Time // no sweep before, after one that left something
}

func newLedger() ledger {
	return ledger{places: make(map[*place]struct{}), byPath: make(map[string]*place)}
}

// enter notes a place whose node is about to be created.
func (l *ledger) enter(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.standing = joining
	l.places[p] = struct{}{}
}

// joined notes that the place's node exists. It says whether the place is now the
// only one that is held; one that was given up meanwhile is not.
func (l *ledger) joined(p *place) (only bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p.standing {
	case joining:
		p.standing, p.since = held, time.Now()
		l.byPath[p.path] = p
		return len(l.byPath) == 1
	case doubtful:
		p.standing = leaving
	}
	return false
}

// leave notes that the place is no longer wanted: its node is to be deleted, once
// it is known.
func (l *ledger) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p.standing {
	case held:
		p.standing = leaving
		delete(l.byPath, p.path)
	case parting:
		p.standing = leaving
	case joining:
		p.standing = doubtful
	}
}

// part notes that the holder is about to delete the place's node itself.
func (l *ledger) part(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.standing == held {
		p.standing = parting
		delete(l.byPath, p.path)
	}
}

// clear notes that no node of the place exists.
func (l *ledger) clear(p *place) {
	l.mu.Lock()
	already := p.standing == cleared
	if p.standing == held {
		delete(l.byPath, p.path)
	}
	p.standing = cleared
	delete(l.places, p)
	l.mu.Unlock()
	if !already {
		close(p.gone)
	}
}

// size is how many nodes may exist.
func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.places)
}

// anyHeld says whether standing would return any.
func (l *ledger) anyHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byPath) > 0
}

// isHeld says whether the place is waited with or held.
func (l *ledger) isHeld(p *place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.standing == held
}

// heldAt is the place that is held with the node at path, nil if none is.
func (l *ledger) heldAt(path string) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byPath[path]
}

// suspect notes that the node at path has changed, and says whether a place stands
// on it.
func (l *ledger) suspect(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.byPath[path]
	if p != nil {
		p.suspected = true
	}
	return p != nil
}

// standing returns the places that are waited with or held, at most as many as
// fit, and how many there are in all. First come those whose node has changed,
// then those that have stood since before, taking turns. Those that are younger
// were proved by their creation, and under a quick succession of locks one of
// them would be gone again by the time that it is checked: they come only where
// there are no others.
func (l *ledger) standing(before time.Time, fit int) (picked []*place, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var old, young []*place
	for _, p := range l.byPath {
		switch {
		case p.suspected:
			p.suspected = false
			picked = append(picked, p)
		case p.since.Before(before):
			old = append(old, p)
		default:
			young = append(young, p)
		}
	}
	if len(old) == 0 && len(picked) == 0 {
		old = young
	}
	slices.SortFunc(old, func(a, b *place) int { return a.checked.Compare(b.checked) })
	picked = append(picked, old...)
	picked = picked[:min(len(picked), fit)]
	for _, p := range picked {
		p.checked = time.Now()
	}
	return picked, len(l.byPath)
}

// unwatched returns held places whose own node nobody watches, and notes that
// somebody does from now on.
func (l *ledger) unwatched() []*place {
	l.mu.Lock()
	defer l.mu.Unlock()
	var places []*place
	for _, p := range l.byPath {
		if !p.watched {
			p.watched = true
			places = append(places, p)
		}
	}
	return places
}

// unwatch takes back that somebody watches the place's node.
func (l *ledger) unwatch(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.watched = false
}

// keep has the place's node stay until then, although it will be owed.
func (l *ledger) keep(p *place, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.keptUntil = until
}

// hasten takes back what keep said.
func (l *ledger) hasten(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.keptUntil = time.Time{}
}

// startSweep returns the places whose nodes are owed a deletion, and marks the
// sweep as begun; or none, and how long to wait.
func (l *ledger) startSweep(now time.Time) (owed []*place, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sweeping || len(l.places) == len(l.byPath) {
		return nil, math.MaxInt64
	}
	wait = math.MaxInt64
	for p := range l.places {
		if p.standing != leaving && p.standing != doubtful {
			continue
		}
		if kept := p.keptUntil.Sub(now); kept > 0 {
			wait = min(wait, kept)
			continue
		}
		owed = append(owed, p)
	}
	if len(owed) == 0 {
		return nil, wait
	}
	if wait := l.notUntil.Sub(now); wait > 0 {
		return nil, wait
	}
	l.sweeping = true
	return owed, 0
}

// endSweep notes that the sweep is over, and when the next may begin.
func (l *ledger) endSweep(notUntil time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweeping, l.notUntil = false, notUntil
}
