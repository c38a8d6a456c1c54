// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"strings"
	"time"
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
	path     string
	member   member
	verified bool // the node belongs to the parent's life that its name says

	gone     chan struct{} // closed once no node of this place exists
	bereaved chan struct{} // closed when another client deleted or wrote to the node

	// Guarded by session.mu.
	standing  standing
	index     int       // in ledger.held, while it is held
	since     time.Time // when the node was known to exist
	watched   bool      // its node is watched
	notBefore time.Time // when its node may be deleted
	failures  int       // of its deletion, one after the other
	stopped   bool      // the holder's work has stopped: the node need not be kept
	vouches   bool      // for its life of the parent
	older     *place    // that vouches for the same, nil if none
	younger   *place    // likewise
	orphaned  bool      // bereaved is closed, or about to be
	claim     *Claim    // once granted
}

func newPlace(line string, tag int64, nonce string) *place {
	return &place{line: line, tag: tag, nonce: nonce, gone: make(chan struct{}), bereaved: make(chan struct{})}
}

// life is that of the parent which the place's name says.
func (p *place) life() life { return life{p.line, p.tag} }

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

// enter notes a place whose node is about to be created.
func (s *session) enter(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.enter(p)
}

// vouch notes that the place's node belongs to the parent's life that its name says.
func (s *session) vouch(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.vouch(p)
}

// witness returns the place whose node a join is to check, nil if there is none.
func (s *session) witness(line string, tag int64) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.witness(line, tag)
}

// leave has the owner delete the place's node.
func (s *session) leave(p *place) {
	s.mu.Lock()
	s.ledger.leave(p)
	s.mu.Unlock()
	s.alarm.Ring()
}

// part reports whether the caller is to delete the place's node itself. Heartbeats
// check it no more.
func (s *session) part(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.part(p)
}

// cleared notes that no node of the place exists.
func (s *session) cleared(p *place) {
	s.mu.Lock()
	news := s.ledger.clear(p)
	s.mu.Unlock()
	if news {
		close(p.gone)
	}
}
