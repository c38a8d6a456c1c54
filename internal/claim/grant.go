// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// AwaitProof waits until the session is proved to live for T/4 at least.
//
// A server that is partitioned from its leader can show an empty queue to a waiter whose session
// has ended. So a contender that has no predecessor is not granted the claim before that.
//
// asked is the proof that the contender has asked for already, nil if it has asked for none. It may have been answered long ago.
func AwaitProof(ctx context.Context, s *client.Session, n *nodes.Node, asked *session.Proof) error {
	for !IsProved(s) {
		isNew := asked == nil
		if isNew {
			asked = s.AskProof(n)
		}
		// Where writes are slow, one proof may leave less: the deadline counts the silence before it. Two in flight shorten that.
		tick := time.NewTimer(s.Timeout() / 12)
		answered, err := asked.AwaitUntil(ctx, tick.C)
		if err == nil && answered && isNew && !IsProved(s) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				err = s.Client().Fail("grant", n.Path, fmt.Errorf("no proof that the session lives: %w", ctx.Err()))
			}
		}
		tick.Stop()
		if err != nil {
			return err
		}
		asked.Drop()
		asked = nil
	}
	return nil
}

// IsProved reports whether the session is proved to live for T/4 at least.
func IsProved(s *client.Session) bool { return s.Left(time.Now()) >= s.Timeout()/4 }

// A Granting is a contender that has no predecessor.
type Granting struct {
	Node   *nodes.Node
	Token  fencing.Token
	Mode   protocol.Mode
	Shared bool // others may hold the queue as well
	Number int  // of a slot
	Waited bool // the contender had a predecessor
	Lists  int  // how often the contender listed the queue after it began to wait
	Asked  *session.Proof
	Remove Removal // of the node, when the holder releases the claim; nil to delete it
}

// Grant makes a claim of a contender.
func Grant(ctx context.Context, s *client.Session, g Granting) (*Claim, error) {
	if err := AwaitProof(ctx, s, g.Node, g.Asked); err != nil {
		return nil, err
	}
	c := &Claim{
		call: ctx, session: s, node: g.Node, token: g.Token, mode: g.Mode, shared: g.Shared, number: g.Number, waited: g.Waited, lists: g.Lists, remove: g.Remove,
		granted: time.Now(), done: make(chan struct{}),
	}
	if err := s.Grant(g.Node, c.Ender(), c.granted); err != nil {
		return nil, c.fail("grant", err)
	}
	// The owner may have found the deadline passed a moment before, with
	// no claim to end.
	if err := c.Err(); err != nil {
		return nil, err
	}
	// And with no claim to end, its next check may be too late for this one.
	s.WakeWithin(min(s.Left(time.Now()), s.Timeout()/24))
	return c, nil
}
