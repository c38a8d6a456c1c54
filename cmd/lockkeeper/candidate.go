// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A candidate represents a separate process: a client with its own session, and a link
// to the servers that can be partitioned.
type candidate struct {
	name     string
	link     link
	client   *recipes.Client
	election *election.Election
	queued   chan struct{} // closed when it is queued behind another candidate
	closing  atomic.Bool   // its connection is about to end because the candidate is being closed
}

// connectBound bounds Connect. Servers that are running answer sooner.
const connectBound = 10 * time.Second

// newCandidate connects a candidate for the election at path.
func newCandidate(ctx context.Context, name, path string, on *target, tl *timeline) (*candidate, error) {
	c := &candidate{name: name, link: link{dialServer: on.dial}, queued: make(chan struct{})}
	waits := false
	ctx, cancel := context.WithTimeoutCause(ctx, connectBound, fmt.Errorf("no session within %v", connectBound))
	defer cancel()
	client, err := recipes.Connect(ctx, on.servers, &recipes.Options{
		SessionTimeout: on.timeout,
		Dial:           c.link.dial,
		Logger:         slog.New(slog.DiscardHandler), // the timeline reports the same events
		Trace: &recipes.Trace{
			Attached: func(recipes.SessionEvent) { tl.say(name, "is attached to a server again, in the same session") },
			Detached: func(recipes.SessionEvent) {
				if !c.closing.Load() {
					tl.say(name, "loses its connection, and tries the other servers")
				}
			},
			SessionEnded: func(e recipes.SessionEvent) {
				if !errors.Is(e.Err, recipes.ErrClosed) {
					tl.say(name, "loses its session: %v", e.Err)
				}
			},
			Waiting: func(recipes.QueueEvent) {
				if !waits {
					waits = true
					tl.say(name, "is queued")
					close(c.queued)
				}
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("candidate %s: %w", name, err)
	}
	c.client = client
	if c.election, err = election.New(client, path, &election.Options{Owner: name}); err != nil {
		client.Close()
		return nil, fmt.Errorf("candidate %s: %w", name, err)
	}
	return c, nil
}

// close ends the candidate's session. It first heals a partition: otherwise the servers
// do not receive the end of the session, and its node blocks the queue until the session
// expires.
func (c *candidate) close() {
	if c.link.heal() {
		ctx, cancel := context.WithTimeout(context.Background(), min(c.client.SessionTimeout(), 5*time.Second))
		defer cancel()
		// Any answer shows that the link is up. Without one the node is gone when the session expires.
		_, _ = c.election.Leader(ctx)
	}
	c.closing.Store(true)
	c.client.Close()
}
