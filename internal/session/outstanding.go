// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// One heartbeat checks as many nodes as fit below both bounds: a server drops the
// connection over a packet larger than its jute.maxbuffer. Any node proves the session. If
// more are held than fit, heartbeats check them in turn, and watches report deletions.
const (
	MaxChecks     = 128
	maxCheckBytes = 64 << 10
)

// An outstanding is the set of nodes that may exist in a session, from before the create of
// each is sent until its deletion is confirmed. Whatever fails in between, each node in the
// set is deleted, or goes with the session. It decides and does no I/O.
// It is safe for concurrent use.
type outstanding struct {
	mu       sync.Mutex // guards what follows, and the fields of Node that name it
	all      map[*Node]struct{}
	toDelete map[*Node]struct{} // those that are to be deleted: uncertain and unwanted
	byPath   map[string]*Node   // those that are held
	held     []*Node            // the same, in the order in which heartbeats check them
	next     int                // in held: the first one that the next heartbeat checks

	youngest map[life]*Node     // of the held verified nodes, linked by Node.older and younger
	granted  map[*Node]struct{} // those with a grant
	over     error              // why nothing more can be granted
}

func newOutstanding() *outstanding {
	return &outstanding{
		all:      make(map[*Node]struct{}),
		toDelete: make(map[*Node]struct{}),
		byPath:   make(map[string]*Node),
		youngest: make(map[life]*Node),
		granted:  make(map[*Node]struct{}),
	}
}

// enter registers a node that is about to be created.
func (o *outstanding) enter(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.state = creating
	o.all[p] = struct{}{}
}

// joined records that the node exists. It reports whether the node is now the only held
// one; a node that its caller left in the meantime is not held.
func (o *outstanding) joined(p *Node) (only bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch p.state {
	case creating:
		p.state, p.since = held, time.Now()
		o.byPath[p.Path] = p
		p.index = len(o.held)
		o.held = append(o.held, p)
		return len(o.held) == 1
	case uncertain:
		p.state = unwanted
	}
	return false
}

// unhold removes the node from the structures of held nodes.
func (o *outstanding) unhold(p *Node) {
	if o.byPath[p.Path] == p {
		delete(o.byPath, p.Path)
	}
	last := len(o.held) - 1
	o.held[p.index] = o.held[last]
	o.held[p.index].index = p.index
	o.held[last] = nil
	o.held = o.held[:last]
	if !p.verified {
		return
	}
	p.verified = false
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

// verify records that the node was created in the life of the parent that its name contains.
// While the node exists, that life goes on: no name without a nonce is used in another life
// of the parent.
func (o *outstanding) verify(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.state != held || p.verified {
		return
	}
	p.verified = true
	p.older = o.youngest[p.life()]
	if p.older != nil {
		p.older.younger = p
	}
	o.youngest[p.life()] = p
}

// witness returns a node that a join must check, so that it is carried out only in that
// life of the parent, or nil if no node proves it. It is the youngest, which as a rule
// is released last.
func (o *outstanding) witness(parent string, tag int64) *Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.youngest[life{parent, tag}]
}

// deleteSoon is deleteSoonLocked for a caller that does not hold mu.
func (o *outstanding) deleteSoon(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deleteSoonLocked(p)
}

// deleteSoonLocked records that the node is no longer wanted, and is to be deleted once its path
// is known.
func (o *outstanding) deleteSoonLocked(p *Node) {
	switch p.state {
	case held:
		o.unhold(p)
		p.state = unwanted
	case deleting:
		p.state = unwanted
	case creating:
		p.state = uncertain
	default:
		return
	}
	o.toDelete[p] = struct{}{}
}

// beginDelete records that the caller is about to delete the node itself. It reports whether the
// caller may: the owner or another caller deletes a node that is not held.
func (o *outstanding) beginDelete(p *Node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.state != held {
		return false
	}
	o.unhold(p)
	p.state = deleting
	return true
}

// clear records that the node does not exist. It reports whether this is the first call for
// the node.
func (o *outstanding) clear(p *Node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := p.state
	if was == held {
		o.unhold(p)
	}
	p.state = gone
	delete(o.all, p)
	delete(o.toDelete, p)
	return was != gone
}

// nextChecks returns the nodes that a heartbeat checks, at most as many as fit; successive
// heartbeats check all in turn. wanted come first.
//
// Nodes that have been held only since before come last: their creation was a proof, and
// under a quick succession of locks such a node would be gone by the time of its check.
func (o *outstanding) nextChecks(before time.Time, wanted []*Node) (picked []*Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := 3*4 + 9 // length, xid and operation, and the end of the transaction
	fits := func(p *Node) bool {
		size += 9 + 4 + len(p.Path) + 4 // type, done and error; the path with its length; version
		return len(picked) == 0 || len(picked) < MaxChecks && size <= maxCheckBytes
	}
	for _, p := range wanted {
		if p.state == held && fits(p) {
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

// unwatched returns the held nodes that are not watched, and records that they are from now
// on.
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
	for p := range o.toDelete {
		if left := p.notBefore.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		due = append(due, p)
	}
	return due, wait
}

// unwanted returns the nodes below parent that are to be deleted. If the session is over,
// those of waiters and holders are unwanted too.
func (o *outstanding) unwanted(parent string, over bool) []*Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	var nodes []*Node
	for p := range o.all {
		if p.Parent == parent && (over || p.state == unwanted || p.state == deleting || p.state == uncertain) {
			nodes = append(nodes, p)
		}
	}
	return nodes
}

// deleteLater is deleteSoon for a node that is not to be deleted before that instant, unless the
// holder's work has stopped.
func (o *outstanding) deleteLater(p *Node, notBefore time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !p.stopped {
		p.notBefore = notBefore
	}
	o.deleteSoonLocked(p)
}

// endGrace records that the holder's work has stopped: the node need not be kept for it.
func (o *outstanding) endGrace(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.stopped = true
	if p.failures == 0 {
		p.notBefore = time.Time{}
	}
}

// postpone is deleteSoon for a node whose deletion has failed. If backOff is set, the pause before
// the next attempt grows with each failure, from a third of timeout on. It returns false
// if the node no longer needs to be deleted.
func (o *outstanding) postpone(p *Node, backOff bool, timeout time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil || p.state == gone {
		return false
	}
	if backOff {
		pause := min(timeout/3<<min(p.failures, 4), maxPause)
		p.notBefore = later(p.notBefore, time.Now().Add(pause))
		p.failures++
	}
	o.deleteSoonLocked(p)
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

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// grant registers e as granted on the node. It returns the reason if nothing can be.
func (o *outstanding) grant(p *Node, e Ender) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.over != nil:
		return o.over
	case p.isLost:
		return sentinel.ErrDeleted
	}
	p.granted, p.grantedAt = e, time.Now()
	o.granted[p] = struct{}{}
	return nil
}

// ungrant removes the grant on the node.
func (o *outstanding) ungrant(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.granted, p)
}

// take returns the nodes with a grant, and removes their grants.
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

// end is take; from then on grant fails with cause.
func (o *outstanding) end(cause error) []*Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = cause
	return o.takeLocked()
}

// lose records that a server reports the node as missing or overwritten. was reports whether
// the node was lost: not if it was released in the meantime. first reports whether this is
// the first such report; e is what was granted on the node, nil if nothing was.
func (o *outstanding) lose(p *Node) (was, first bool, e Ender) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was = p.state == held || p.isLost
	first = was && !p.isLost
	p.isLost = p.isLost || was
	if first && p.granted != nil {
		delete(o.granted, p)
	}
	return was, first, p.granted
}

// unwatch records that the node is not watched.
func (o *outstanding) unwatch(p *Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.watched = false
}

// unwatchAll is unwatch for all held nodes.
func (o *outstanding) unwatchAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.held {
		p.watched = false
	}
}

// at returns the node with that path if it is held, and otherwise nil.
func (o *outstanding) at(path string) *Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byPath[path]
}

// count returns how many nodes may exist, how many of them are held, and how many have a
// grant.
func (o *outstanding) count() (all, held, granted int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all), len(o.held), len(o.granted)
}

// needs reports whether contenders wait or hold, and whether nodes are to be deleted: what a session must be served for.
func (o *outstanding) needs() (contenders, deletions bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.held) > 0, len(o.toDelete) > 0
}
