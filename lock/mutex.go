// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lookup"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Options are the options of a Mutex. The zero value of a field means
// its default.
type Options struct {
	// Owner is the label that other clients see for this contender, as the holder
	// or as a waiter: at most 4096 bytes. The default is the client's
	// Options.Owner.
	Owner string

	// ReleaseTimeout bounds Unlock, and how long a Lock that failed waits for the
	// deletion of its node. The default is the session timeout.
	ReleaseTimeout time.Duration

	// Reentrant makes the lock re-entrant: a Lock or TryLock under the context of a Hold
	// of the same client and path, which Hold.Context or Do gave out, joins that hold
	// immediately, without a request. Both Mutexes must have the option. The token stays
	// the same, and the last Unlock releases the lock. Once the hold has ended, a call
	// under its context returns recipes.ErrLost with the cause.
	//
	// The context alone decides, never the goroutine: goroutines that share the context
	// share the hold, and do not exclude each other.
	Reentrant bool

	// LockDelay is how long Lock and TryLock wait after a holder that did not release the
	// lock: it crashed, or it lost the lock, or perhaps its Unlock was not confirmed. Requests of that
	// holder that are still on their way arrive in this time. The default is not to wait.
	//
	// Each holder leaves a breadcrumb in the node <path>-breadcrumb, which its Unlock
	// clears. The next holder that finds one waits from that moment, on its own monotonic
	// clock, while its session proves that it lives. If its ctx ends before the delay, or
	// the lock is lost, it leaves the queue; a later call of the same Mutex goes on
	// counting from the same moment.
	//
	// A holder that had lost the lock before it called Unlock counts as one that did not
	// release; one whose Unlock returned ErrUncertain may. All contenders of the path must
	// set the same of LockDelay and Fence, one or both. A contender that sets none of them
	// does not wait and leaves no breadcrumb, so its own crash goes unnoticed.
	LockDelay time.Duration

	// Fence, if not nil, is called before Lock and TryLock return the lock after such a
	// holder, when LockDelay is over. It makes sure that the former holder does no harm: it
	// revokes its credentials, or stops its process. An error keeps the lock from being
	// taken, and is returned by Lock. A panic passes through Lock, after the node was deleted.
	// Its ctx is done when the caller's is, or when the lock is lost.
	//
	// After an error or a panic the breadcrumb stays: Lock returns a *recipes.UnreleasedError, with the
	// operation "fence", and the next contender calls Fence again. It may be called more than once for one
	// holder, and by two processes at the same time if the first has lost the lock. It is
	// not called after holders whose successor has set LockDelay alone.
	Fence func(ctx context.Context, former recipes.FormerHolder) error

	_ struct{}
}

// fenced reports whether holders leave breadcrumbs.
func (o *Options) fenced() bool { return o.LockDelay != 0 || o.Fence != nil }

// errFenced is returned for locks with a LockDelay or a Fence that are to be taken at the same time.
var errFenced = errors.New("a lock-delay and a fence function are possible for a single lock only")

// A Mutex is a lock on a path: at most one Hold of it is open at a time, across all
// processes that use the path, under the conditions that the package documentation
// states.
//
// It does not implement sync.Locker, because it can fail to lock, and a lock that
// was obtained can be lost. The state of an acquisition is in its Hold. A Mutex is
// safe for concurrent use, and calls from one process exclude each other like calls
// from several processes. It is re-entrant only with Options.Reentrant.
type Mutex struct {
	client    *recipes.Client
	queue     *queue.Queue
	mode      protocol.Mode // of Lock and TryLock: see RWMutex.RLocker
	reentrant bool
	fenced    bool // Options has a LockDelay or a Fence

	holders *lookup.Source[recipes.Contender] // read for calls of Lock that are about to time out
}

// New returns the lock at path, below the client's namespace. It sends no request.
// opts may be nil.
//
// The node at path holds the lock's contenders and nothing else. It is created when
// it is needed, with missing nodes above it, as container nodes, which the servers
// remove when they have been empty for a while.
func New(client *recipes.Client, path string, opts *Options) (*Mutex, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.ReleaseTimeout < 0 {
		return nil, &recipes.Error{Op: "new lock", Path: path, Err: fmt.Errorf("release timeout %v is negative", opts.ReleaseTimeout)}
	}
	if err := zkpath.CheckRecipe(path); err != nil {
		return nil, &recipes.Error{Op: "new lock", Err: err}
	}
	queue, err := queue.New(client, path, &queue.Options{
		Owner: opts.Owner, ReleaseTimeout: opts.ReleaseTimeout, LockDelay: opts.LockDelay, Fence: opts.Fence,
	})
	if err != nil {
		return nil, fmt.Errorf("new lock: %w", err)
	}
	return &Mutex{client: client, queue: queue, reentrant: opts.Reentrant, fenced: opts.fenced(), holders: lookup.NewSource(queue.First)}, nil
}

// Path returns the path of the lock, the client's namespace included.
func (m *Mutex) Path() string { return m.queue.Path() }

// Lock waits until the lock is free and takes it. Waiters get the lock in the order
// in which they joined the queue.
//
// ctx bounds the wait and not the hold. A waiter that loses its session joins again
// at the end of the queue, and recipes.Trace reports it. After an error nothing is
// held, and the waiter's node is gone: Lock waits for the deletion, for
// ReleaseTimeout at most. If no server can be reached, the node is deleted in the
// background. If a create is in progress when ctx ends, Lock first waits for its
// answer: a round trip as a rule, a quarter of the session timeout at most. No node
// outlives its session. The error is ctx's, recipes.ErrClosed, or that with which a
// server refused.
//
// The error of a Lock that waited until the deadline of ctx is a *HeldError, which
// names the holder and matches ErrLocked and
// context.DeadlineExceeded. The holder is read, with two requests, at most a second
// before the deadline, and may have changed since; it is this call's own contender
// if that was the first, and no server had proved its session to live. If the reads have not returned
// by the deadline, the error is ctx's alone. With Options.LockDelay or Options.Fence, the
// error of a Lock that ended in the delay or failed to fence is a
// *recipes.UnreleasedError, which names the former holder.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	return m.lockAs(ctx, m.mode)
}

func (m *Mutex) lockAs(ctx context.Context, mode protocol.Mode) (*Hold, error) {
	if outer := m.outer(ctx); outer != nil {
		return outer.join(ctx)
	}
	l := m.holders.Before(ctx)
	claim, err := m.queue.ClaimAs(ctx, mode)
	holder, found := l.End()
	// During a lock-delay the first contender is this call's own.
	if found && errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*recipes.UnreleasedError)) {
		return nil, &HeldError{Path: m.queue.Path(), Holder: holder, Err: err}
	}
	return m.hold(claim, err)
}

// TryLock takes the lock if it is free and has no waiters. Otherwise its error is a
// *HeldError, which names the first contender in the queue and for which errors.Is
// finds ErrLocked. It waits for no other contender, only for answers, which ctx
// bounds, and for Options.LockDelay and Options.Fence. On a lock that is held it creates nothing, and costs two reads. What it
// reads may lag behind, so that a lock which was just released can appear to be
// held; a stale read never grants a lock that is held.
//
// A TryLock that finds the lock free can lose it to another client before its own request is carried out. It tries once more, and
// after the second lost race returns a *HeldError: another client has held the lock since the call began. If that one has left
// already, its Holder is not known, and has no Name.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.tryAs(ctx, m.mode)
}

func (m *Mutex) tryAs(ctx context.Context, mode protocol.Mode) (*Hold, error) {
	if outer := m.outer(ctx); outer != nil {
		return outer.join(ctx)
	}
	return m.hold(m.queue.TryAs(ctx, mode))
}

func (m *Mutex) hold(claim *recipes.Claim, err error) (*Hold, error) {
	if err == nil {
		return m.newHold(claim), nil
	}
	var busy *recipes.BusyError
	switch {
	case errors.As(err, new(*recipes.UnreleasedError)): // which can wrap any error of the fence function
		return nil, fmt.Errorf("lock: %w", err)
	case errors.As(err, &busy):
		return nil, &HeldError{Path: busy.Path, Holder: busy.Front, Taken: busy.Taken}
	}
	return nil, fmt.Errorf("lock: %w", err)
}

// Do takes the lock, runs f, and releases the lock. It returns only after f has
// returned, so that no work outlives its lock. A panic of f passes through Do after
// the lock was released.
//
// The context that f gets is done when ctx is done or the hold is lost;
// context.Cause returns which. Pass the token of the hold to every resource that f
// writes to, or write to ZooKeeper with its Commit. f may unlock the hold, if that is
// the last thing that f does with it.
//
// The error is Lock's, in which case f did not run, or f's joined with Unlock's. So if f returns nil but the lock was lost, Do returns an error that
// matches recipes.ErrLost.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, hold *Hold) error) error {
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return hold.do(ctx, f)
}
