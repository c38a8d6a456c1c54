// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// AwaitProof waits until the session is proved to live for T/4 at least.
//
// A server that is partitioned from its leader can show an empty queue to a waiter whose session
// has ended. So a contender that has no predecessor is not granted the claim before that.
func AwaitProof(ctx context.Context, s *client.Session, n *nodes.Node) error {
	proved := func() bool { return s.Left(time.Now()) >= s.Timeout()/4 }
	for !proved() {
		if err := s.Prove(ctx, n); err != nil {
			return err
		}
		if proved() {
			return nil
		}
		// Proved, but just after a silence: packets must be answered for some time
		// until the leader is known to hear from the session again.
		select {
		case <-time.After(s.Timeout() / 24):
		case <-ctx.Done():
			return s.Client().Fail("grant", n.Path, fmt.Errorf("no proof that the session lives: %w", ctx.Err()))
		}
	}
	return nil
}

// A Granting is a contender that has no predecessor.
type Granting struct {
	Node   *nodes.Node
	Token  fencing.Token
	Mode   protocol.Mode
	Shared bool // others may hold the queue as well
	Waited bool // the contender had a predecessor
}

// Grant makes a claim of a contender.
func Grant(ctx context.Context, s *client.Session, g Granting) (*Claim, error) {
	if err := AwaitProof(ctx, s, g.Node); err != nil {
		return nil, err
	}
	c := &Claim{
		session: s, node: g.Node, token: g.Token, mode: g.Mode, shared: g.Shared, waited: g.Waited,
		granted: time.Now(), done: make(chan struct{}),
	}
	if err := s.Nodes.Grant(g.Node, c.Ender(), c.granted); err != nil {
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
