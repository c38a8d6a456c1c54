// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math"
	"sync"
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
// It decides and does no I/O. It is safe for concurrent use.
type outstanding struct {
	mu     sync.Mutex // guards what follows, and what says so in Node
	all    map[*Node]struct{}
	owed   map[*Node]struct{} // those that are to be deleted: doubtful and leaving
	byPath map[string]*Node   // those that are held
	held   []*Node            // the same, in the order in which heartbeats check them
	next   int                // in held: the first one that the next heartbeat checks

	youngest map[life]*Node     // of those that are held and vouch, linked by node.older and younger
	granted  map[*Node]struct{} // those on which something stands
	over     error              // why nothing can be granted any more
}

func newOutstanding() *outstanding {
	return &outstanding{
		all:      make(map[*Node]struct{}),
		owed:     make(map[*Node]struct{}),
		byPath:   make(map[string]*Node),
		youngest: make(map[life]*Node),
		granted:  make(map[*Node]struct{}),
	}
}

// enter notes a node that is about to be created.
func (o *outstanding) enter(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.standing = joining
	o.all[p] = struct{}{}
}

// joined notes that the node exists. It reports whether the node is now the
// only one that is held; one that was given up meanwhile is not.
func (o *outstanding) joined(p *Node) (only bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
	o.mu.Lock()
	defer o.mu.Unlock()
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

// witness is a node that a join is to check, to be carried out only in that
// life of the parent: nil if none vouches for it. It is the youngest, which as a
// rule is released last.
func (o *outstanding) witness(parent string, tag int64) *Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.youngest[life{parent, tag}]
}

// leave is leaveLocked for a caller that does not hold mu.
func (o *outstanding) leave(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaveLocked(p)
}

// leaveLocked notes that the node is no longer wanted: its node is to be deleted, once
// it is known.
func (o *outstanding) leaveLocked(p *Node) {
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
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.standing != held {
		return false
	}
	o.unhold(p)
	p.standing = parting
	return true
}

// clear notes that no node of the node exists. It reports whether that is news.
func (o *outstanding) clear(p *Node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
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
	o.mu.Lock()
	defer o.mu.Unlock()
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
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.held {
		if !p.watched {
			p.watched = true
			nodes = append(nodes, p)
		}
	}
	return nodes
}

// due returns the nodes that are to be deleted by now, or none, and how long to wait.
func (o *outstanding) due(now time.Time) (due []*Node, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
	o.mu.Lock()
	defer o.mu.Unlock()
	var nodes []*Node
	for p := range o.all {
		if p.Parent == parent && (over || p.standing == leaving || p.standing == parting || p.standing == doubtful) {
			nodes = append(nodes, p)
		}
	}
	return nodes
}

// leaveAfter is leave for a node that is not deleted before that instant, unless the work
// under what stood on it has stopped.
func (o *outstanding) leaveAfter(p *Node, notBefore time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !p.stopped {
		p.notBefore = notBefore
	}
	o.leaveLocked(p)
}

// hasten notes that the work has stopped: the node need not be kept for it.
func (o *outstanding) hasten(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.stopped = true
	if p.failures == 0 {
		p.notBefore = time.Time{}
	}
}

// postpone is leave for a node whose deletion has failed. It waits before the next attempt
// if backOff says so, the longer the more have failed, from a third of timeout on. It
// reports false if the node is of no concern any more.
func (o *outstanding) postpone(p *Node, backOff bool, timeout time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil || p.standing == cleared {
		return false
	}
	if backOff {
		pause := min(timeout/3<<min(p.failures, 4), maxPause)
		p.notBefore = later(p.notBefore, time.Now().Add(pause))
		p.failures++
	}
	o.leaveLocked(p)
	return true
}

// maxPause bounds the pause between two attempts to delete one node.
const maxPause = time.Minute

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// grant notes that e stands on the node. Its error is the reason why nothing can.
func (o *outstanding) grant(p *Node, e Ender) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.over != nil:
		return o.over
	case p.orphaned:
		return ErrDeleted
	}
	p.granted = e
	o.granted[p] = struct{}{}
	return nil
}

// ungrant forgets what stands on the node.
func (o *outstanding) ungrant(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.granted, p)
}

// take returns the nodes on which something stands, and forgets that.
func (o *outstanding) take() []*Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takeLocked()
}

func (o *outstanding) takeLocked() []*Node {
	nodes := make([]*Node, 0, len(o.granted))
	for n := range o.granted {
		nodes = append(nodes, n)
	}
	clear(o.granted)
	return nodes
}

// end is take, after which nothing can be granted any more, for that cause.
func (o *outstanding) end(cause error) []*Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = cause
	return o.takeLocked()
}

// lose notes that a server says of the node that it is missing, or was written to. was
// reports whether that says anything: not of a node that was released meanwhile. first
// reports whether it is news, and e is what stands on the node then, nil if nothing does.
func (o *outstanding) lose(p *Node) (was, first bool, e Ender) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was = p.standing == held || p.orphaned
	first = was && !p.orphaned
	p.orphaned = p.orphaned || was
	if first && p.granted != nil {
		delete(o.granted, p)
	}
	return was, first, p.granted
}

// unwatch notes that the node is not watched.
func (o *outstanding) unwatch(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.watched = false
}

// at returns the node with that path if it is held, and otherwise nil.
func (o *outstanding) at(path string) *Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byPath[path]
}

// count returns how many nodes may exist, how many of them are held, and on how many
// something stands.
func (o *outstanding) count() (all, held, granted int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all), len(o.held), len(o.granted)
}
