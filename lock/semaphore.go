// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Semaphore is a number of permits on a path, the limit, that calls share across all processes
// that use the path. Each call acquires any number of permits, its weight. The sum of the
// weights of all open Permits is never above the limit, under the conditions that the package
// documentation states.
//
// Permits are granted in the order in which the calls joined the queue, and to each call all of
// them together. So a call that needs many permits is not overtaken by calls that need few, and two
// calls never each hold a part of what the other needs.
//
// The limit is stored in the node <path>-limit, by the first use of the path. All processes must
// pass the same limit, or 0, which follows the stored one. Resize changes it for all that run.
//
// On the same path, a Mutex counts as all permits. Curator's InterProcessSemaphoreV2 and Kazoo's
// Semaphore must not use the path.
//
// A Semaphore is safe for concurrent use.
type Semaphore struct {
	mutex   *Mutex // whose queue has the permits
	permits *permits.Permits
}

// MaxPermits is the greatest limit of a Semaphore, 1<<20.
const MaxPermits = protocol.MaxPermits

// SemaphoreOptions are the options of a Semaphore. The zero value of a field means its default.
//
// There is no LockDelay and no Fence: several calls hold permits at the same time, and the breadcrumb
// of a Mutex names one holder. Nor is there a Reentrant: a call needs its own permits.
type SemaphoreOptions struct {
	// Owner and ReleaseTimeout are as in Options.
	Owner          string
	ReleaseTimeout time.Duration

	_ struct{}
}

// Permits are permits of a Semaphore, from the grant until they are released or lost. They are used
// once. All methods are safe for concurrent use.
//
// Besides Release, they have the methods of the embedded Claim: Token, Done, Err, Context, Deadline,
// Check, Commit, Shared, and Path, the path of the node.
type Permits struct {
	*recipes.Claim
	hold *Hold
}

// Release gives the permits back. It does, and returns, what Hold.Unlock does.
func (p *Permits) Release(ctx context.Context) error { return p.hold.Unlock(ctx) }

// NewSemaphore returns the semaphore at path with a limit of 1 to MaxPermits. It sends no
// request. A limit of 0 is the one that is stored: if none is, the methods return ErrNoLimit, and store nothing. opts may be nil.
func NewSemaphore(client *recipes.Client, path string, limit int, opts *SemaphoreOptions) (*Semaphore, error) {
	s, err := newSemaphore(client, path, limit, opts, permits.New)
	if err != nil {
		return nil, fmt.Errorf("new semaphore: %w", err)
	}
	return s, nil
}

func newSemaphore(
	client *recipes.Client, path string, limit int, opts *SemaphoreOptions, newPermits func(*queue.Queue, int) (*permits.Permits, error),
) (*Semaphore, error) {
	if opts == nil {
		opts = &SemaphoreOptions{}
	}
	mutex, err := New(client, path, &Options{Owner: opts.Owner, ReleaseTimeout: opts.ReleaseTimeout})
	if err != nil {
		return nil, err
	}
	permits, err := newPermits(mutex.queue, limit)
	if err != nil {
		return nil, err
	}
	return &Semaphore{mutex, permits}, nil
}

// Path returns the path of the semaphore, the client's namespace included.
func (s *Semaphore) Path() string { return s.mutex.Path() }

// Acquire waits until weight permits are free that no call ahead waits for, and takes them. It waits
// and fails as Mutex.Lock does; the holder that a *HeldError names is the first contender in the
// queue.
//
// A weight that is not from 1 to the limit is an error. A *LimitError reports that the limit
// of NewSemaphore is not the one that is stored, in the first call that reads the stored one. In
// both cases nothing is changed.
//
// The token of Permits orders them among the holds of a Mutex on the path and is admitted by
// fencing.Gate.AdmitShared. It does not order permits of the semaphore among themselves.
func (s *Semaphore) Acquire(ctx context.Context, weight int) (*Permits, error) {
	l := s.mutex.holders.Before(ctx)
	claim, err := s.permits.Claim(ctx, weight)
	holder, found := l.End()
	if found && errors.Is(err, context.DeadlineExceeded) {
		return nil, &HeldError{Path: s.mutex.queue.Path(), Holder: holder, Err: err}
	}
	return s.grant("acquire", claim, err)
}

// TryAcquire takes weight permits if they are free and no call waits for them. Otherwise it fails as
// Mutex.TryLock does, and its other errors are Acquire's.
func (s *Semaphore) TryAcquire(ctx context.Context, weight int) (*Permits, error) {
	claim, err := s.permits.Try(ctx, weight)
	return s.grant("try acquire", claim, err)
}

// grant is Mutex.hold for permits.
func (s *Semaphore) grant(op string, claim *recipes.Claim, err error) (*Permits, error) {
	if mismatch := (*permits.LimitError)(nil); errors.As(err, &mismatch) {
		return nil, &recipes.Error{Op: op, Path: s.Path(), Err: &LimitError{Path: mismatch.Path, Limit: mismatch.Limit, Stored: mismatch.Stored}}
	}
	hold, err := s.mutex.hold(claim, err)
	if err != nil {
		return nil, err
	}
	return &Permits{hold.Claim, hold}, nil
}

// Do acquires weight permits, runs f, and releases them: see Mutex.Do.
func (s *Semaphore) Do(ctx context.Context, weight int, f func(ctx context.Context, permits *Permits) error) error {
	permits, err := s.Acquire(ctx, weight)
	if err != nil {
		return err
	}
	return permits.hold.do(ctx, func(ctx context.Context, _ *Hold) error { return f(ctx, permits) })
}

// Limit returns the stored limit, in the view of the server that this client is connected to. It stores the limit of NewSemaphore if
// there is none.
func (s *Semaphore) Limit(ctx context.Context) (int, error) {
	limit, err := s.permits.Limit(ctx)
	if err != nil {
		return 0, fmt.Errorf("limit: %w", err)
	}
	return limit, nil
}

// Resize changes the limit for all processes. Waiters that fit under a higher limit get their
// permits. A waiter with a weight above a lower limit gets an error.
//
// Resize lowers the limit only if the permits that it removes are free and no call waits for them.
// Otherwise its error wraps a *HeldError, which has the number, and nothing is changed. After
// recipes.ErrUncertain, which means that ctx ended before the answer arrived, the limit may have
// been changed: call Limit, or Resize again.
//
// A nil error means that the limit was stored at some instant after the call began, whatever a server that lags behind still shows.
//
// Processes that have used the semaphore before, or with a limit of 0, follow the new limit. Start further ones with the
// new limit.
func (s *Semaphore) Resize(ctx context.Context, limit int) error {
	return s.resized("permits", limit, s.permits.Resize(ctx, limit))
}

// resized returns the error of a Resize of so many units for the engine's.
func (s *Semaphore) resized(unit string, limit int, err error) error {
	if busy := (*recipes.BusyError)(nil); errors.As(err, &busy) {
		var held error = &HeldError{Path: busy.Path, Holder: busy.Front, Taken: busy.Taken}
		switch {
		case errors.Is(err, permits.ErrNumberInUse):
			held = fmt.Errorf("limit of %d %s: one that it removes is in use: %w", limit, unit, held)
		case busy.Taken > limit:
			held = fmt.Errorf("limit of %d %s is below the %d that are held or waited for: %w", limit, unit, busy.Taken, held)
		}
		if errors.Is(err, permits.ErrLoweredInPart) {
			held = fmt.Errorf("%w: %w", permits.ErrLoweredInPart, held)
		}
		return &recipes.Error{Op: "resize", Path: s.Path(), Err: held}
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// Contenders returns the holders and the waiters in the order of the queue, with their Permits. Held
// is set for the holders. The result is the view of the server that this client is connected to,
// which may lag behind. It costs one read, and one more for each contender.
func (s *Semaphore) Contenders(ctx context.Context) ([]recipes.Contender, error) {
	contenders, err := s.mutex.queue.Contenders(ctx)
	if err != nil {
		return nil, fmt.Errorf("contenders: %w", err)
	}
	return contenders, nil
}
