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

// A candidate is what would be a process of its own elsewhere: a client with a
// session of its own, and a way to the servers that can be cut.
type candidate struct {
	name     string
	cut      cut
	client   *recipes.Client
	election *election.Election
	inLine   chan struct{} // closed when it waits behind another
	leaves   atomic.Bool   // its connection is about to end because it ends
}

// connectBound is more than servers need that are there.
const connectBound = 10 * time.Second

// newCandidate connects a candidate for the election at path.
func newCandidate(ctx context.Context, name, path string, on *ground, tl *timeline) (*candidate, error) {
	c := &candidate{name: name, cut: cut{reach: on.dial}, inLine: make(chan struct{})}
	waits := false
	ctx, cancel := context.WithTimeoutCause(ctx, connectBound, fmt.Errorf("no session within %v", connectBound))
	defer cancel()
	client, err := recipes.Connect(ctx, on.servers, &recipes.Options{
		SessionTimeout: on.timeout,
		Dial:           c.cut.dial,
		Logger:         slog.New(slog.DiscardHandler), // the timeline says it
		Trace: &recipes.Trace{
			Attached: func(int64, string) { tl.say(name, "reaches a server again, in the same session") },
			Detached: func(int64, string) {
				if !c.leaves.Load() {
					tl.say(name, "has lost its server, and tries the others")
				}
			},
			SessionEnded: func(_ int64, cause error) {
				if !errors.Is(cause, recipes.ErrClosed) {
					tl.say(name, "its session is over: %v", cause)
				}
			},
			Waiting: func(string, string, string) {
				if !waits {
					waits = true
					tl.say(name, "waits in line")
					close(c.inLine)
				}
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("candidate %s: %w", name, err)
	}
	c.client = client
	if c.election, err = election.New(client, path, &election.Options{ID: name}); err != nil {
		client.Close()
		return nil, fmt.Errorf("candidate %s: %w", name, err)
	}
	return c, nil
}

// close ends the candidate's session. Where it is still cut off it lets it back
// in first: a session that ends unheard leaves its node for others to wait for.
func (c *candidate) close() {
	if c.cut.mend() {
		ctx, cancel := context.WithTimeout(context.Background(), min(c.client.SessionTimeout(), 5*time.Second))
		defer cancel()
		// Any answer will do, and without one the node goes when the session expires.
		_, _ = c.election.Leader(ctx)
	}
	c.leaves.Store(true)
	c.client.Close()
}
