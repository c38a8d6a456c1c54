// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// A place is one node of ours in a line: from before its creation is asked for
// until its deletion is confirmed. It belongs to one session and dies with it.
type place struct {
	line    string // path of the parent
	tag     int64  // czxid that the parent was believed to have
	nonce   string // in the node's record
	inName  bool   // the nonce is in the node's name as well
	highest int32  // the largest number that was seen before: the node's is larger

	// Set when the node is known, before the ledger is told.
	path   string
	member member

	gone     chan struct{} // closed once no node of this place exists
	bereaved chan struct{} // closed when somebody else deleted or wrote to the node

	standing  standing  // guarded by ledger.mu
	since     time.Time // when the node was known to exist; guarded by ledger.mu
	checked   time.Time // by the last heartbeat; guarded by ledger.mu
	suspected bool      // its node has changed; guarded by ledger.mu
	watched   bool      // its node is watched; guarded by ledger.mu
	keptUntil time.Time // when its node may be deleted; guarded by ledger.mu
	orphaned  bool      // bereaved is closed, or about to be; guarded by session.mu
	claim     *Claim    // once granted; guarded by session.mu
}

// know notes which node is the place's.
func (p *place) know(path string, czxid int64) error {
	m, ok := parseMember(path[strings.LastIndexByte(path, '/')+1:])
	if !ok {
		return &Error{Op: "join", Path: p.line, Err: fmt.Errorf("server returned the node name %q, which has no sequence number", path)}
	}
	m.czxid = czxid
	p.path, p.member = path, m
	return nil
}

// find looks for the place's node after a create that was not answered. It first
// has a write refused: that goes through the quorum behind the create, so that
// what the server shows afterwards is complete. The node is the one that has our
// session and nonce: there is one at most, for a create is sent once under a nonce.
// found is false if the create was not carried out, and then it never will be.
func (s *session) find(ctx context.Context, p *place) (found bool, err error) {
	flush := func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(p.line+"/"+namePrefix(p.tag, p.nonce)+"flush", -1)
	}
	for {
		_, err := call(ctx, s, flush)
		if outcomeOf(err) == refused && !errors.Is(err, zk.ErrSessionExpired) {
			break
		}
		if !brokenOff(err) || ctx.Err() != nil || s.ctx.Err() != nil {
			return false, &Error{Op: "find", Path: p.line, Err: err}
		}
	}
	children, parent, err := s.children(ctx, p.line)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	prefix := namePrefix(p.tag, "")
	if p.inName {
		prefix = namePrefix(p.tag, p.nonce)
	}
	for _, m := range parseMembers(children) {
		// In another life of the parent its numbers have begun anew.
		seen := parent.Czxid == p.tag && !m.late() && m.sequence <= p.highest
		if seen || !strings.HasPrefix(m.name, prefix) {
			continue
		}
		data, stat, err := s.get(ctx, p.line+"/"+m.name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return false, err
		}
		if stat.EphemeralOwner == s.sessionID() && decodeRecord(data).Nonce == p.nonce {
			m.czxid = stat.Czxid
			p.path, p.member = p.line+"/"+m.name, m
			return true, nil
		}
	}
	return false, nil
}

func newPlace(line string, tag int64, nonce string) *place {
	return &place{line: line, tag: tag, nonce: nonce, gone: make(chan struct{}), bereaved: make(chan struct{})}
}

// clear sees to it that no node of the place exists, and says so in the ledger.
func (s *session) clear(ctx context.Context, p *place) error {
	if p.path == "" {
		found, err := s.find(ctx, p)
		if err != nil {
			return err
		}
		if !found {
			s.ledger.clear(p)
			return nil
		}
		s.ledger.joined(p)
	}
	_, err := s.erase(ctx, p)
	return err
}

// erase deletes the place's node. existed is false if it was gone before.
//
// While it has not succeeded the node stays in the ledger; whoever calls it
// leaves the rest to the keeper.
func (s *session) erase(ctx context.Context, p *place) (existed bool, err error) {
	ask := func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.path, -1) }
	tried := false
	for {
		var err error
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < s.timeout()/4 {
			_, err = call(ctx, s, ask)
		} else {
			_, err = callThrough(ctx, s, ask)
		}
		switch {
		case err == nil:
			s.ledger.clear(p)
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			s.ledger.clear(p)
			// After an attempt that was not answered, it is that attempt that did it.
			return tried, nil
		case errors.Is(err, zk.ErrSessionExpired), s.ctx.Err() != nil && errors.Is(context.Cause(s.ctx), errExpired):
			return true, nil // the node went with the session
		case s.ctx.Err() != nil:
			return tried, &Error{Op: "delete", Path: p.path, Err: context.Cause(s.ctx)}
		case !brokenOff(err) || ctx.Err() != nil:
			return tried, &Error{Op: "delete", Path: p.path, Err: err}
		}
		tried = true
	}
}

// children lists a node, asking again while no server answers.
func (s *session) children(ctx context.Context, path string) (children []string, stat *zk.Stat, err error) {
	type listing struct {
		children []string
		stat     *zk.Stat
	}
	l, err := read(ctx, s, "list", path, func(conn *zk.Conn) (listing, error) {
		children, stat, err := conn.Children(path)
		return listing{children, stat}, err
	})
	return l.children, l.stat, err
}

// get reads a node, asking again while no server answers.
func (s *session) get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	type content struct {
		data []byte
		stat *zk.Stat
	}
	c, err := read(ctx, s, "read", path, func(conn *zk.Conn) (content, error) {
		data, stat, err := conn.Get(path)
		return content{data, stat}, err
	})
	return c.data, c.stat, err
}

// read repeats a request that changes nothing until a server has answered it.
func read[R any](ctx context.Context, s *session, op, path string, request func(*zk.Conn) (R, error)) (R, error) {
	for {
		r, err := call(ctx, s, request)
		if err == nil {
			return r, nil
		}
		if !brokenOff(err) || ctx.Err() != nil || s.ctx.Err() != nil {
			var zero R
			if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return zero, &Error{Op: op, Path: path, Err: err}
		}
	}
}
