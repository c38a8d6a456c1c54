// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math"
	"time"
)

// One heartbeat checks as many nodes as fit below both bounds: a server drops the
// connection over a packet larger than its jute.maxbuffer. Any node proves the session;
// with more than fit they take turns, and watches tell of those that are deleted.
const (
	MaxChecks     = 128
	maxCheckBytes = 64 << 10
)

// An outstanding is every node that may exist in a session, from before its creation
// is asked for until its deletion is confirmed. Whatever goes wrong in between,
// a node that is in it will be deleted; when the session is over, the nodes go with it.
// It decides and does no I/O. Guarded by Session.mu.
type outstanding struct {
	all    map[*Node]struct{}
	owed   map[*Node]struct{} // those whose node is to be deleted: doubtful and leaving
	byPath map[string]*Node   // those that are held
	held   []*Node            // the same, in the order in which heartbeats check them
	next   int                // in held: the first one that the next heartbeat checks

	youngest map[life]*Node // of those that are held and vouch, linked by node.older and younger
}

func newOutstanding() outstanding {
	return outstanding{
		all:      make(map[*Node]struct{}),
		owed:     make(map[*Node]struct{}),
		byPath:   make(map[string]*Node),
		youngest: make(map[life]*Node),
	}
}

// enter notes a node whose node is about to be created.
func (o *outstanding) enter(p *Node) {
	p.standing = joining
	o.all[p] = struct{}{}
}

// joined notes that the node exists. It reports whether the node is now the
// only one that is held; one that was given up meanwhile is not.
func (o *outstanding) joined(p *Node) (only bool) {
	switch p.standing {
	case joining:
		p.standing, p.since = held, time.Now()
		o.byPath[p.Path] = p
		p.index = len(o.held)
		o.held = append(o.held, p)
		return len(o.held) == 1
	case doubtful:
		p.standing = leaving
	}
	return false
}

// unhold forgets what is kept of nodes that are held.
func (o *outstanding) unhold(p *Node) {
	if o.byPath[p.Path] == p {
		delete(o.byPath, p.Path)
	}
	last := len(o.held) - 1
	o.held[p.index] = o.held[last]
	o.held[p.index].index = p.index
	o.held[last] = nil
	o.held = o.held[:last]
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
		o.youngest[p.life()] = p.older
	default:
		delete(o.youngest, p.life())
	}
	p.older, p.younger = nil, nil
}

// vouch notes that the node was made in the life of the parent that its
// name says. As long as the node is there, so is that life of the parent: no name
// is made in another one without a nonce.
func (o *outstanding) vouch(p *Node) {
	if p.standing != held || p.vouches {
		return
	}
	p.vouches = true
	p.older = o.youngest[p.life()]
	if p.older != nil {
		p.older.younger = p
	}
	o.youngest[p.life()] = p
}

// witness is a node whose node a join is to check, to be carried out only in that
// life of the parent: nil if none vouches for it. It is the youngest, which as a
// rule is released last.
func (o *outstanding) witness(parent string, tag int64) *Node { return o.youngest[life{parent, tag}] }

// leave notes that the node is no longer wanted: its node is to be deleted, once
// it is known.
func (o *outstanding) leave(p *Node) {
	switch p.standing {
	case held:
		o.unhold(p)
		p.standing = leaving
	case parting:
		p.standing = leaving
	case joining:
		p.standing = doubtful
	default:
		return
	}
	o.owed[p] = struct{}{}
}

// part notes that a caller is about to delete the node itself. It reports
// whether the caller may: a node that is not held is somebody else's to delete.
func (o *outstanding) part(p *Node) bool {
	if p.standing != held {
		return false
	}
	o.unhold(p)
	p.standing = parting
	return true
}

// clear notes that no node of the node exists. It reports whether that is news.
func (o *outstanding) clear(p *Node) bool {
	was := p.standing
	if was == held {
		o.unhold(p)
	}
	p.standing = cleared
	delete(o.all, p)
	delete(o.owed, p)
	return was != cleared
}

// picks returns the nodes that a heartbeat checks, at most as many as fit, and all
// of them in a few heartbeats: they take turns. wanted come first.
//
// Those that have been held only since before come last: they were proved by their
// creation, and under a quick succession of locks one of them would be gone again by
// the time that it is checked.
func (o *outstanding) picks(before time.Time, wanted []*Node) (picked []*Node) {
	size := 3*4 + 9 // length, xid and operation, and the end of the transaction
	fits := func(p *Node) bool {
		size += 9 + 4 + len(p.Path) + 4 // type, done and error; the path with its length; version
		return len(picked) == 0 || len(picked) < MaxChecks && size <= maxCheckBytes
	}
	for _, p := range wanted {
		if p.standing == held && fits(p) {
			picked = append(picked, p)
		}
	}
	for n := range o.held {
		i := (o.next + n) % len(o.held)
		p := o.held[i]
		if !p.since.Before(before) {
			continue
		}
		if !fits(p) {
			o.next = i
			return picked
		}
		picked = append(picked, p)
	}
	o.next = 0
	if len(picked) == 0 && len(o.held) > 0 {
		picked = append(picked, o.held[len(o.held)-1]) // a young one rather than none
	}
	return picked
}

// unwatched returns nodes that are held whose own node is not watched, and notes
// that it is from now on.
func (o *outstanding) unwatched() (nodes []*Node) {
	for _, p := range o.held {
		if !p.watched {
			p.watched = true
			nodes = append(nodes, p)
		}
	}
	return nodes
}

// due returns the nodes whose nodes are to be deleted by now, or none, and how long
// to wait.
func (o *outstanding) due(now time.Time) (due []*Node, wait time.Duration) {
	wait = math.MaxInt64
	for p := range o.owed {
		if left := p.notBefore.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		due = append(due, p)
	}
	return due, wait
}

// unwanted returns the nodes below parent that are to be deleted. Those that
// are waited with or held are unwanted too if the session is over.
func (o *outstanding) unwanted(parent string, over bool) []*Node {
	var nodes []*Node
	for p := range o.all {
		if p.Parent == parent && (over || p.standing == leaving || p.standing == parting || p.standing == doubtful) {
			nodes = append(nodes, p)
		}
	}
	return nodes
}
