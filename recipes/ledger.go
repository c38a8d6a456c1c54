// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"math"
	"time"
)

// A standing says what is known of a place's node.
type standing int

const (
	joining  standing = iota // the create is on its way
	doubtful                 // the create's outcome is unknown, and no caller waits for the place
	held                     // the node exists, and is waited with or held
	parting                  // the node exists, and its holder is deleting it
	leaving                  // the node may exist, and must go
	cleared                  // no node exists
)

// A life is that of a parent, from its creation until it is deleted.
type life struct {
	line string // path of the parent
	tag  int64  // its czxid
}

// A ledger is every node that may exist in a session, from before its creation
// is asked for until its deletion is confirmed. Whatever goes wrong in between,
// a node that is in the ledger will be deleted; when the session is over, the
// ledger goes with it. It decides and does no I/O. Guarded by session.mu.
type ledger struct {
	places map[*place]struct{}
	owed   map[*place]struct{} // those whose node is to be deleted: doubtful and leaving
	byPath map[string]*place   // those that are held
	held   []*place            // the same, in the order in which heartbeats check them
	next   int                 // in held: the first one that the next heartbeat checks

	youngest map[life]*place // of those that are held and vouch, linked by place.older and younger
}

func newLedger() ledger {
	return ledger{
		places:   make(map[*place]struct{}),
		owed:     make(map[*place]struct{}),
		byPath:   make(map[string]*place),
		youngest: make(map[life]*place),
	}
}

// enter notes a place whose node is about to be created.
func (l *ledger) enter(p *place) {
	p.standing = joining
	l.places[p] = struct{}{}
}

// joined notes that the place's node exists. It reports whether the place is now the
// only one that is held; one that was given up meanwhile is not.
func (l *ledger) joined(p *place) (only bool) {
	switch p.standing {
	case joining:
		p.standing, p.since = held, time.Now()
		l.byPath[p.path] = p
		p.index = len(l.held)
		l.held = append(l.held, p)
		return len(l.held) == 1
	case doubtful:
		p.standing = leaving
	}
	return false
}

// unhold forgets what is kept of places that are held.
func (l *ledger) unhold(p *place) {
	if l.byPath[p.path] == p {
		delete(l.byPath, p.path)
	}
	last := len(l.held) - 1
	l.held[p.index] = l.held[last]
	l.held[p.index].index = p.index
	l.held[last] = nil
	l.held = l.held[:last]
	if !p.vouches {
		return
	}
	p.vouches = false
	if p.older != nil {
		p.older.younger = p.younger
	}
	switch {
	case p.younger != nil:
		p.younger.older = p.older
	case p.older != nil:
		l.youngest[p.life()] = p.older
	default:
		delete(l.youngest, p.life())
	}
	p.older, p.younger = nil, nil
}

// vouch notes that the place's node was made in the life of the parent that its
// name says. As long as the node is there, so is that life of the parent: no name
// is made in another one without a nonce.
func (l *ledger) vouch(p *place) {
	if p.standing != held || p.vouches {
		return
	}
	p.vouches = true
	p.older = l.youngest[p.life()]
	if p.older != nil {
		p.older.younger = p
	}
	l.youngest[p.life()] = p
}

// witness is a place whose node a join is to check, to be carried out only in that
// life of the parent: nil if none vouches for it. It is the youngest, which as a
// rule is released last.
func (l *ledger) witness(line string, tag int64) *place { return l.youngest[life{line, tag}] }

// leave notes that the place is no longer wanted: its node is to be deleted, once
// it is known.
func (l *ledger) leave(p *place) {
	switch p.standing {
	case held:
		l.unhold(p)
		p.standing = leaving
	case parting:
		p.standing = leaving
	case joining:
		p.standing = doubtful
	default:
		return
	}
	l.owed[p] = struct{}{}
}

// part notes that a caller is about to delete the place's node itself. It reports
// whether the caller may: a node that is not held is somebody else's to delete.
func (l *ledger) part(p *place) bool {
	if p.standing != held {
		return false
	}
	l.unhold(p)
	p.standing = parting
	return true
}

// clear notes that no node of the place exists. It reports whether that is news.
func (l *ledger) clear(p *place) bool {
	was := p.standing
	if was == held {
		l.unhold(p)
	}
	p.standing = cleared
	delete(l.places, p)
	delete(l.owed, p)
	return was != cleared
}

// picks returns the places that a heartbeat checks, at most as many as fit, and all
// of them in a few heartbeats: they take turns. wanted come first.
//
// Those that have been held only since before come last: they were proved by their
// creation, and under a quick succession of locks one of them would be gone again by
// the time that it is checked.
func (l *ledger) picks(before time.Time, wanted []*place) (picked []*place) {
	size := 3*4 + 9 // length, xid and operation, and the end of the transaction
	fits := func(p *place) bool {
		size += 9 + 4 + len(p.path) + 4 // type, done and error; the path with its length; version
		return len(picked) == 0 || len(picked) < maxChecks && size <= maxCheckBytes
	}
	for _, p := range wanted {
		if p.standing == held && fits(p) {
			picked = append(picked, p)
		}
	}
	for n := range l.held {
		i := (l.next + n) % len(l.held)
		p := l.held[i]
		if !p.since.Before(before) {
			continue
		}
		if !fits(p) {
			l.next = i
			return picked
		}
		picked = append(picked, p)
	}
	l.next = 0
	if len(picked) == 0 && len(l.held) > 0 {
		picked = append(picked, l.held[len(l.held)-1]) // a young one rather than none
	}
	return picked
}

// unwatched returns places that are held whose own node is not watched, and notes
// that it is from now on.
func (l *ledger) unwatched() (places []*place) {
	for _, p := range l.held {
		if !p.watched {
			p.watched = true
			places = append(places, p)
		}
	}
	return places
}

// due returns the places whose nodes are to be deleted by now, or none, and how long
// to wait.
func (l *ledger) due(now time.Time) (due []*place, wait time.Duration) {
	wait = math.MaxInt64
	for p := range l.owed {
		if left := p.notBefore.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		due = append(due, p)
	}
	return due, wait
}
