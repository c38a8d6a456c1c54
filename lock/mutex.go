// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Options are the options of a Mutex. The zero value of a field means its
// default.
type Options struct {
	// Owner is the label by which others see who holds the lock or waits for it:
	// at most 4096 bytes. The default is host and process id.
	Owner string

	// UnlockTimeout bounds Unlock, and what a Lock that failed still does to take
	// its node away. The default is the session timeout.
	UnlockTimeout time.Duration

	_ struct{}
}

// A Mutex is a lock on a path: at most one Hold of it is open at a time, across
// all processes that use the path, as the package documentation states it.
//
// It is no sync.Locker, because it can fail to lock, and a lock that was obtained
// can be lost. What was obtained is the Hold. A Mutex is safe for concurrent use,
// and calls from one process exclude each other like those from several. It is not
// re-entrant.
type Mutex struct {
	line *recipes.Line

	mu      sync.Mutex  // guards reading
	reading *sharedRead // of the holder, for calls of Lock that are about to time out
}

// New returns the lock at path, below the client's namespace. It asks no server.
// opts may be nil.
//
// The path is that of a node which holds the lock's contenders and nothing else.
// It is made when it is needed, with those above it, as container nodes, which
// the servers remove when they have been empty for a while.
func New(client *recipes.Client, path string, opts *Options) (*Mutex, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.UnlockTimeout < 0 {
		return nil, &recipes.Error{Op: "new lock", Path: path, Err: fmt.Errorf("unlock timeout %v is negative", opts.UnlockTimeout)}
	}
	line, err := recipes.NewLine(client, path, &recipes.LineOptions{Owner: opts.Owner, ReleaseTimeout: opts.UnlockTimeout})
	if err != nil {
		return nil, fmt.Errorf("new lock: %w", err)
	}
	return &Mutex{line: line}, nil
}

// Lock waits until the lock is free and takes it. Those who wait are served in
// the order in which they came.
//
// ctx bounds the wait and not the hold. If the session of a waiter dies, it joins
// again at the end of the line, and recipes.Trace tells of it. On an error nothing
// is held, and the waiter's node is gone, which Lock waits for, for the unlock
// timeout at most; or it is being taken away in the background, if no server can
// be reached. A create that is under way when ctx ends is seen through to its
// answer first: a round trip as a rule, a quarter of the session timeout at most.
// No node outlives its session. The error is ctx's, recipes.ErrClosed, or what a
// server refused.
//
// The error of a Lock that waited until the deadline of ctx is a *HeldError, which
// names the holder and for which errors.Is finds ErrLocked and
// context.DeadlineExceeded. The holder is the one of at most a second before the
// deadline, because it is read, by two requests, before Lock gives up. If the reads
// have not returned by the deadline, the error is ctx's alone.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	l := m.lookUp(ctx)
	claim, err := m.line.Claim(ctx)
	holder, found := l.end()
	if found && errors.Is(err, context.DeadlineExceeded) {
		return nil, &HeldError{Path: m.line.Path(), Holder: holder, Err: err}
	}
	return m.hold(claim, err)
}

// TryLock takes the lock if it is free and nobody waits for it. Otherwise its
// error is a *HeldError, which says who is first in line and for which errors.Is
// finds ErrLocked. It waits for no other contender, only for answers, which ctx
// bounds. On a lock that is held it creates nothing, and costs two reads. What it
// reads may be somewhat behind, so that a lock which was just given back can look
// held; a lock that is held is never granted for it.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.hold(m.line.Try(ctx))
}

func (m *Mutex) hold(claim *recipes.Claim, err error) (*Hold, error) {
	var busy *recipes.BusyError
	switch {
	case errors.As(err, &busy):
		return nil, &HeldError{Path: busy.Path, Holder: busy.Front}
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	}
	return &Hold{Claim: claim, line: m.line}, nil
}

// Do takes the lock, runs f, and gives the lock back. It returns only after f has
// returned, so that no work outlives its lock; a panic of f passes through it,
// with the lock given back.
//
// The context that f gets is done when ctx is, or when the hold is lost, and
// context.Cause returns which. Pass the token of the hold to every resource that f
// writes to, or write to ZooKeeper with its Commit. f may unlock the hold, if it is
// the last thing that f does with it.
//
// The error is that of Lock, in which case f was not run, or that of f joined
// with that of Unlock. So an f that returned nil while the lock was lost ends in
// an error for which errors.Is finds recipes.ErrLost.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, hold *Hold) error) (err error) {
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	work, cancel := hold.Context(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, hold.Unlock(ctx))
	}()
	return f(work, hold)
}
