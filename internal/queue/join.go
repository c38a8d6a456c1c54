// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Join creates a node of this client at the end of the queue. alone reports whether the
// reply shows that the node has no predecessor.
//
// One transaction creates the node and writes the parent. Its reply has the new
// node's path and the parent's Stat as of that moment: the zxid of the write is
// the new node's czxid, the parent's czxid verifies the name, and the number of
// children may show that the queue was empty.
//
// The tag is this client's belief, and in another life of the parent the numbers
// begin anew: a name of tag and number alone could belong to a claim,
// of this client or another, whose node was deleted with the parent. Its
// Commit, Check and heartbeats would take the new node for its own. So a plain name is given
// only where the transaction begins with a check of a node that is known to be of
// this life of the parent, and fails as a whole in another: one of the session, or
// else of another client. Where none is known, the name has a nonce.
//
// With a version of the parent other than -1 the join is carried out only while the
// parent has that version, which each join of this library raises. ErrContended reports
// that the version differed, and nothing was created.
func (q *Queue) Join(ctx context.Context, s *client.Session, e Entry, version int32) (p *Place, alone bool, err error) {
	witnessed, missed := true, false // until a second witness did not exist: the next one may not either
	for {
		v, err := q.Learn(ctx, s)
		if err != nil {
			return nil, false, err
		}
		a := &Attempt{Queue: q, Entry: e, View: v, Version: version, witnessed: witnessed}
		if err := Send(ctx, s, a); err != nil {
			return nil, false, err
		}
		if err := a.FindOut(ctx, s); err != nil {
			return nil, false, err
		}
		if a.Stays() {
			a.Stay(s)
			return a.Place, a.Alone(), nil
		}
		a.Undo(s)
		switch a.step {
		case leaveCancelled:
			return nil, false, &recipes.Error{Op: "join", Path: q.path, Err: ctx.Err()}
		case fail:
			return nil, false, &recipes.Error{Op: "join", Path: q.path, Err: a.Err}
		case retryUnwitnessed:
			if witnessed = a.other != "" && !missed; witnessed {
				missed = true
				q.findWitness(ctx, s, v.tag)
			}
		}
	}
}

// findWitness lists the queue, for a node that the next attempt can check. Otherwise its name would have a nonce, so that the wait
// began with the listing, and the next contender's guess at the name would fail.
func (q *Queue) findWitness(ctx context.Context, s *client.Session, tag int64) {
	// After an error, the attempt has a nonce.
	if lst, err := List(ctx, s, q.path); err == nil && lst.Parent != nil && lst.Parent.Czxid == tag {
		q.witnesses.see(lst, protocol.Member{})
	}
}

// FindOut determines what follows from the answer. If the outcome is unknown, it searches for the
// node. After an error the outcome remains unknown, and the node is being deleted.
func (a *Attempt) FindOut(ctx context.Context, s *client.Session) error {
	if a.step = a.next(ctx.Err() != nil); a.step == findOut {
		found, err := a.recover(ctx, s)
		if err != nil {
			return err
		}
		a.step = a.afterSearch(found)
	}
	if a.exists() {
		a.Place.joined, a.Place.detached = time.Now(), a.detached
		s.Joined(a.Place.Node)
		a.Queue.recordOwnNumber(a.detached, a.Place)
	}
	return nil
}

// Stays reports whether the node is the caller's.
func (a *Attempt) Stays() bool { return a.step == stay }

// Alone reports whether the answer shows that the node has no predecessor.
func (a *Attempt) Alone() bool { return a.parent != nil && a.parent.NumChildren == 1 }

// Stay records that the node is the caller's.
func (a *Attempt) Stay(s *client.Session) {
	if a.Place.Kind == nodes.Lease {
		s.Nodes.HandOver(a.Place.Node)
	}
	if a.parent != nil || a.isWitnessed() {
		a.Place.verified = true
		s.Nodes.MarkVerified(a.Place.Node)
	}
	if a.Place.Kind == nodes.Lease {
		return
	}
	contenders := 0 // the answer does not show how many there are
	if a.parent != nil {
		contenders = int(a.parent.NumChildren)
	}
	a.Queue.Client.Report().Joined(a.Queue.path, a.Place.Path, contenders)
}

// Undo deletes the node, if there is one, and corrects what the queue knows of its parent.
func (a *Attempt) Undo(s *client.Session) {
	q := a.Queue
	switch {
	case a.exists():
		q.Discard(s, a.Place)
	case a.step != findOut: // then it is being deleted
		s.Nodes.MarkGone(a.Place.Node)
	}
	switch a.step {
	case leaveOtherLife, retryReread:
		q.Relearn()
	case retryUnwitnessed:
		switch {
		case a.witness == nil:
			q.witnesses.forget(a.other)
		case errors.Is(a.Err, zk.ErrBadVersion):
			_, _ = s.MarkOverwritten(a.witness) // it exists, and what was granted on it may have been revoked
		case s.MarkLost(a.witness):
			q.Relearn() // perhaps with its parent
		}
	case retryUnwritten:
		q.markReadOnly()
	case retryWithNonce:
		q.markOverflowed()
	}
}
