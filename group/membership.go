// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Membership is a member of this process. It lasts until Leave: after the end of a session the
// client registers the member again in its next one. All methods are safe for concurrent use.
type Membership struct {
	registration *registration.Registration
	id           string
}

// ID returns the id of the member.
func (m *Membership) ID() string { return m.id }

// Path returns the path of the member's node, namespace included.
func (m *Membership) Path() string { return m.registration.Path() }

// State returns whether the member is registered at the moment, and if not, why: its session has
// ended, another process has its id, or no server can be reached. It does no I/O.
func (m *Membership) State() recipes.RegistrationState { return m.registration.State() }

// States yields the current state, and then each later one. A reader that is slower than the
// changes skips to the newest. The sequence ends when ctx is done, or with the state at the end of
// the membership.
func (m *Membership) States(ctx context.Context) iter.Seq[recipes.RegistrationState] {
	return m.registration.States(ctx)
}

// Update replaces the member's metadata. It returns nil when the ensemble has it; while the member
// is not registered, that is after it is registered again. Of concurrent calls the last one prevails.
//
// If ctx ends first, the error wraps recipes.ErrUncertain, and the metadata is written when that is
// possible. If metadata is over MaxMetadata, or ctx was done before, nothing changes.
func (m *Membership) Update(ctx context.Context, metadata []byte) error {
	if len(metadata) > MaxMetadata {
		err := fmt.Errorf("metadata of %d bytes is over the limit of %d", len(metadata), MaxMetadata)
		return &recipes.Error{Op: "update", Path: m.Path(), Err: err}
	}
	return m.registration.Update(ctx, metadata)
}

// Leave ends the membership and deletes the member's node. It works even if ctx is done, as ctx only
// carries values: the bound is the release timeout, and a round trip that may be under way.
//
// It returns nil if the node is gone, and recipes.ErrUncertain if it may remain: the deletion then
// continues in the background, and the session's end is its bound. A later call returns nil once
// the node is gone.
func (m *Membership) Leave(ctx context.Context) error {
	if err := m.registration.Unregister(ctx); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Done returns a channel that is closed when the membership has ended: by Leave, because the client
// was closed, or because a server refused the node. The loss of a session does not end it.
func (m *Membership) Done() <-chan struct{} { return m.registration.Done() }

// Err returns nil until Done is closed. Then it returns an error that wraps recipes.ErrReleased,
// recipes.ErrClosed, or the error with which a server refused.
func (m *Membership) Err() error { return m.registration.Err() }
