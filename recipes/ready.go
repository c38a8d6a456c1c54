// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// State returns the client's current state. It does no I/O.
func (c *Client) State() State {
	e := client.Of(c)
	return stateOf(e, e.Newest().Status())
}

// Ready returns nil if the client can be used, and otherwise an error with the cause and
// the time since when it cannot. It is meant for readiness probes. It does no I/O.
//
// A client is ready while a server serves its session, and for T/4 after: an outage that
// ends within T/4 costs no claim. It is not ready between two sessions, and never again once
// it is closed.
func (c *Client) Ready() error {
	e := client.Of(c)
	if e.Closing().Err() != nil {
		return &Error{Op: "ready", Err: sentinel.ErrClosed}
	}
	state := c.State()
	switch {
	case state.Ended != nil:
		return &Error{Op: "ready", Err: fmt.Errorf("no session since %s (%w): %w", state.Since.Format(time.RFC3339), state.Ended, e.Why())}
	case state.Attached, time.Since(state.Since) < state.Timeout/4:
		return nil
	}
	return &Error{Op: "ready", Err: fmt.Errorf("no server has served the session since %s: %w", state.Since.Format(time.RFC3339), e.Why())}
}

// States yields the client's state, and then its state after each change: a session
// that is opened or over, attached or detached. A reader that is slower than the
// changes skips to the newest. The sequence ends when ctx is done or the client is closed. A new proof does
// not count as a change.
//
// Any number of subscribers may run at the same time.
func (c *Client) States(ctx context.Context) iter.Seq[State] {
	return func(yield func(State) bool) {
		if ctx == nil {
			return
		}
		e := client.Of(c)
		sub := e.Report().Subscribe(func() session.Status { return e.Newest().Status() })
		defer e.Report().Unsubscribe(sub)
		for {
			state, ok := sub.Next(ctx)
			if !ok || !yield(stateOf(e, state)) {
				return
			}
		}
	}
}
