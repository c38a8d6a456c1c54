// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// A State describes a client's session at one moment.
type State struct {
	Session  int64         // id of the newest session
	Timeout  time.Duration // its session timeout T
	Attached bool          // a server serves the session
	Server   string        // the server that serves it, or did last
	Since    time.Time     // when Attached last changed
	Proof    time.Time     // when the last write was sent that a quorum answered; zero if there was none
	Ended    error         // why the session is over, nil if it is not

	// Unguarded is why the guardian of Options.Guard has not acknowledged the session; nil if it has, and without the option.
	Unguarded error
}

// String describes the state in one line.
func (s State) String() string {
	since := s.Since.Format(time.RFC3339Nano)
	switch {
	case s.Ended != nil:
		return fmt.Sprintf("session %s ended: %v", session.FormatID(s.Session), s.Ended)
	case s.Attached:
		return fmt.Sprintf("session %s attached to %s since %s", session.FormatID(s.Session), s.Server, since)
	}
	return fmt.Sprintf("session %s detached from %s since %s", session.FormatID(s.Session), s.Server, since)
}

func stateOf(c *client.Client, s session.Status) State {
	state := State{
		Session: s.ID, Timeout: s.Timeout, Attached: s.Attached, Server: s.Server,
		Since: s.Since, Proof: s.Proof, Ended: s.Ended,
	}
	if s.Ended == nil {
		state.Unguarded = c.Unguarded(s.ID)
	}
	return state
}
