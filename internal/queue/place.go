// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Place is one node of this client in a queue.
type Place struct {
	*nodes.Node
	mode   protocol.Mode
	inName bool // a nonce is in the node's name as well
	Behind bool // the place had a predecessor
	lists  int  // how often the place listed the queue since
	joined time.Time
	// closed once the connection has ended on which the place joined
	detached <-chan struct{}
	own      ownWatch
	asked    *session.Proof // that the session lives; nil if the place has not asked for one since its predecessor's last event

	// Only of a contender that may yield.
	Candidate bool
	Listed    *Listing // the last one that decided for the place

	// Only of a contender that claims permits.
	Limit  Limit  // as it was last read
	Record []byte // the node's data
	Ahead  int    // contenders ahead of it when its permits fitted

	// Only of a contender that claims a permit with a number.
	Numbered bool
	Number   int
	Granted  int64 // zxid of its grant, the token

	// Set when the node is known, before the session is notified.
	Member   protocol.Member
	verified bool // the node belongs to the life of the parent that its name gives
}

// A Limit is the stored limit of permits as a read returned it.
type Limit struct {
	Permits int
	Version int32           // of the node
	Changed <-chan struct{} // closed when the node may have changed
}

func newPlace(queue string, tag int64, nonce string) *Place {
	return &Place{Node: nodes.NewNode(queue, tag, nonce)}
}

// setCreated records the node that the create made.
func (p *Place) setCreated(path string, czxid int64) error {
	m, ok := protocol.ParseMember(path[strings.LastIndexByte(path, '/')+1:])
	if !ok {
		return &recipes.Error{Op: "join", Path: p.Parent, Err: fmt.Errorf("server returned the node name %q, which has no sequence number", path)}
	}
	m.Czxid = czxid
	p.Path, p.Member = path, m
	return nil
}

// An ownWatch is the watch of a place's own node, nil before it is set.
type ownWatch struct{ *session.Watch }

// watchOwn watches the place's node, to be notified of its deletion.
func (p *Place) watchOwn(ctx context.Context, s *client.Session) error {
	w, err := s.WatchOwn(ctx, p.Node)
	if err == nil {
		p.own = ownWatch{w}
	}
	return err
}

// fired returns a channel that is closed once the watch has fired, nil if it is not set.
func (w ownWatch) fired() <-chan struct{} {
	if w.Watch == nil {
		return nil
	}
	return w.Fired()
}

// isQuiet reports whether the node existed at the last event that the server has reported on this connection: it reports events
// in the order in which they happened. The watch can be older than the connection: another contender of the client may have set it.
func (w ownWatch) isQuiet() bool {
	return w.Watch != nil && !session.IsClosed(w.Fired()) && !session.IsClosed(w.Detached())
}

// exists reports whether the place's node exists, after the last event that was reported, or later. If it does not, a
// listing is needed: the node may have been deleted, or is not visible on this server yet.
func (p *Place) exists(ctx context.Context, s *client.Session) (bool, error) {
	switch {
	case p.asked != nil:
		err := p.asked.Await(ctx)
		p.asked = nil
		return err == nil, err
	case p.own.isQuiet():
		return true, nil
	}
	return s.Exists(ctx, p.Path)
}

// nameNonce returns the nonce if the node's name has it, and otherwise an empty string.
func (p *Place) nameNonce() string {
	if p.inName {
		return p.Nonce
	}
	return ""
}

// recurs reports whether another node can get the same name: where the counter sticks,
// numbers make no name unique, and without a nonce a late delete could hit another
// client's node.
func (p *Place) recurs() bool { return p.Member.Overflowed() && !p.inName }

// askProof asks for a proof that the session lives, if a grant would have to wait for one. The answer comes with those to the
// reads by which the place decides.
func (p *Place) askProof(s *client.Session) {
	if p.asked == nil && !claim.IsProved(s) {
		p.asked = s.AskProof(p.Node)
	}
}

// dropProof records that the place does not need the proof.
func (p *Place) dropProof() {
	if p.asked != nil {
		p.asked.Drop()
		p.asked = nil
	}
}
