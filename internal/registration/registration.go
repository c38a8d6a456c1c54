// SPDX-License-Identifier: Apache-2.0

// Package registration keeps ephemeral nodes in existence across sessions.
package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// MaxData bounds the data of a Registration, in bytes. Every process that follows
// the node reads it again after each change.
const MaxData = 64 << 10

// Options are the options of a Registration. The zero value of a field means its
// default.
type Options struct {
	// ReleaseTimeout bounds Unregister, and the time in which a failed Register deletes its
	// node before it returns. The default is the session timeout. The rest is done in the
	// background.
	ReleaseTimeout time.Duration

	_ struct{}
}

// A Registration is an ephemeral node that this client keeps in existence until Unregister: the
// entry of a live process in a directory, for instance. ZooKeeper deletes the node when the
// client's session ends, and the client then creates it again in its next session. It also
// restores a node that was deleted, and data that was overwritten, by another client.
//
// At most one session has the node, in ZooKeeper's commit order. The client waits while another
// session has the path, and also for the end of its own former session. It never deletes the node
// of either, as by then the name can belong to another process.
//
// A Registration says that a process was alive, and protects nothing: the node remains for the
// session timeout T, and a tick, after its process died, or was partitioned from the servers.
// A process that must stop when it loses a role holds a lock or a term. A registration sends no
// heartbeats; it costs a write and a read for each session and for each Update.
//
// All methods are safe for concurrent use.
type Registration struct {
	client  *client.Client
	path    string // namespace included
	release time.Duration
	life    context.Context // done when the node is no longer wanted; the cause is the reason
	stop    context.CancelCauseFunc
	wake    chan struct{} // wakes the owner after Update
	done    chan struct{} // closed when the owner has ended

	mu       sync.Mutex      // guards what follows
	data     []byte          // that the node is to have
	revision int             // number of Updates
	written  int             // the newest of them that the node has had
	session  *client.Session // in which the node is registered; nil if it is not
	since    time.Time       // when session became what it is
	cause    error           // why session is nil
	leftover *leftover       // the node whose deletion was not confirmed; nil if there is none
	err      error           // why the registration has ended
	changed  chan struct{}   // closed, and replaced, when any of these changes
}

// Register creates the ephemeral node at path, an absolute path to which the client's namespace
// is added, and keeps it registered. Missing nodes above it are created, as container nodes.
// opts may be nil.
//
// Register waits while another session has the node, until ctx is done: a process that was
// restarted waits so for the end of its former session, at most T and a tick after its death.
// The error is then a *TakenError, which names that session, and ctx's. ctx bounds the call and
// not the registration. After an error there is no registration, and no node: Register waits for
// the deletion as a failed Queue.Claim does, for the release timeout at most. ErrUncertain means that the node may remain.
//
// It returns an error immediately if an argument is invalid, if the path has a node that is not
// ephemeral, if this client has registered the path already, or if a server refuses the node.
func Register(ctx context.Context, of *recipes.Client, path string, data []byte, opts *Options) (*Registration, error) {
	fail := func(err error) (*Registration, error) {
		return nil, &recipes.Error{Op: "register", Path: zkpath.Abridged(path), Err: err}
	}
	if opts == nil {
		opts = &Options{}
	}
	switch err := checkRegistrationData(data); {
	case of == nil:
		return fail(errors.New("client is nil"))
	case ctx == nil:
		return fail(sentinel.ErrNilContext)
	case err != nil:
		return fail(err)
	case opts.ReleaseTimeout < 0:
		return fail(fmt.Errorf("release timeout %v is negative", opts.ReleaseTimeout))
	}
	if err := zkpath.CheckRecipe(path); err != nil {
		return fail(err)
	}
	c := client.Of(of)
	full, err := c.Place(path)
	if err != nil {
		return fail(err)
	}
	path = full
	life, stop := context.WithCancelCause(c.Closing())
	r := &Registration{
		client: c, path: path, release: opts.ReleaseTimeout, life: life, stop: stop,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		data: bytes.Clone(data), revision: 1, since: time.Now(), changed: make(chan struct{}),
	}
	if err := registered.Of(c).start(ctx, r); err != nil {
		stop(err)
		return fail(sentinel.WithCtx(ctx, err))
	}
	err = r.await(ctx, 1)
	if err == nil {
		return r, nil
	}
	r.mu.Lock()
	ended, cause := r.err, r.cause
	r.mu.Unlock()
	stop(err)
	<-r.done
	switch {
	case ended != nil:
		return nil, ended
	case errors.Is(cause, recipes.ErrTaken):
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if left := r.remains(); left != nil {
		err = fmt.Errorf("%w: %w", err, left)
	}
	return fail(err)
}

// remains returns nil if the node is gone, and ErrUncertain if it may remain after the registration has ended.
func (r *Registration) remains() error {
	r.mu.Lock()
	left := r.leftover
	r.mu.Unlock()
	if !left.remains() {
		return nil
	}
	return fmt.Errorf("%w, deletion continues in the background: %w", sentinel.ErrUncertain, left.why())
}

func checkRegistrationData(data []byte) error {
	if len(data) > MaxData {
		return fmt.Errorf("data of %d bytes is over the limit of %d", len(data), MaxData)
	}
	return nil
}

// Path returns the path of the node, namespace included.
func (r *Registration) Path() string { return r.path }

// Update replaces the node's data. It returns nil when the ensemble has the new data; while the
// node is not registered, that is after it is registered again. Of concurrent calls the last one
// prevails.
//
// If ctx ends first, the error wraps ErrUncertain: the data remains the registration's, and
// is written when that is possible. If data is over MaxRegistrationData, or ctx was done
// before, nothing changes. If the registration has ended, Update returns the error of Err.
func (r *Registration) Update(ctx context.Context, data []byte) error {
	fail := func(err error) error { return &recipes.Error{Op: "update", Path: r.path, Err: err} }
	if ctx == nil {
		return fail(sentinel.ErrNilContext)
	}
	if err := checkRegistrationData(data); err != nil {
		return fail(err)
	}
	if ctx.Err() != nil {
		return fail(sentinel.WithCtx(ctx, ctx.Err()))
	}
	r.mu.Lock()
	if err := r.err; err != nil {
		r.mu.Unlock()
		return err
	}
	r.data = bytes.Clone(data)
	r.revision++
	mine := r.revision
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	err := r.await(ctx, mine)
	if ended := r.Err(); err == nil || ended != nil {
		return ended
	}
	return fail(fmt.Errorf("%w: %w", sentinel.ErrUncertain, err))
}

// await waits until the ensemble has the data of an Update, or of Register, the first one.
func (r *Registration) await(ctx context.Context, revision int) error {
	for {
		r.mu.Lock()
		written, err, changed := r.written, r.err, r.changed
		r.mu.Unlock()
		switch {
		case written >= revision:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sentinel.WithCtx(ctx, ctx.Err())
		}
	}
}

// Unregister ends the registration and deletes the node. It works even if ctx is done, as ctx
// only carries values: the bound is the release timeout, and a round trip that may be under way.
//
// It returns nil if the node is gone, and ErrUncertain if it may remain: the deletion then
// continues in the background, and the session's end is its bound. A later call waits for the
// same end, and returns nil once the node is gone.
//
// If an operator has deleted the node of a session that is alive, and another process registers
// the path before this client is notified, Unregister can delete the node of that process, which
// restores it.
func (r *Registration) Unregister(ctx context.Context) error {
	if ctx == nil {
		return &recipes.Error{Op: "unregister", Path: r.path, Err: sentinel.ErrNilContext}
	}
	r.stop(sentinel.ErrReleased)
	<-r.done
	if err := r.remains(); err != nil {
		return &recipes.Error{Op: "unregister", Path: r.path, Err: err}
	}
	return nil
}

// Done returns a channel that is closed when the registration has ended: by Unregister, because
// the client was closed, or because a server refused the node. The loss of a session does
// not end it.
func (r *Registration) Done() <-chan struct{} { return r.done }

// Err returns nil until Done is closed. Then it returns an error that wraps ErrReleased, ErrClosed,
// or the error with which a server refused.
func (r *Registration) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
