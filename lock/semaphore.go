// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Semaphore is a number of permits on a path, the limit, that holds share across all processes
// that use the path. Each call acquires any number of permits, its weight. The sum of the
// weights of all open holds is never above the limit, under the conditions that the package
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
	permits *recipes.Permits
}

// NewSemaphore returns the semaphore at path with a limit of 1 to recipes.MaxPermits. It sends no
// request. A limit of 0 is the one that is stored: if none is, the methods return ErrNoLimit, and store nothing. The options are those of New. It refuses Options.LockDelay and Options.Fence: several
// calls hold permits at the same time, and the breadcrumb of a Mutex names one holder. It refuses
// Options.Reentrant too: a call under a hold needs its own permits.
func NewSemaphore(client *recipes.Client, path string, limit int, opts *Options) (*Semaphore, error) {
	if opts != nil && opts.Reentrant {
		return nil, &recipes.Error{Op: "new semaphore", Path: path, Err: errReentrant}
	}
	if opts != nil && opts.fenced() {
		return nil, &recipes.Error{Op: "new semaphore", Path: path, Err: errFenced}
	}
	mutex, err := New(client, path, opts)
	if err != nil {
		return nil, err
	}
	permits, err := recipes.NewPermits(mutex.queue, limit)
	if err != nil {
		return nil, fmt.Errorf("new semaphore: %w", err)
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
// The Hold is shared: its token orders it among the holds of a Mutex on the path and is admitted by
// fencing.Gate.AdmitShared. It does not order holds of the semaphore among themselves.
func (s *Semaphore) Acquire(ctx context.Context, weight int) (*Hold, error) {
	l := s.mutex.holders.Before(ctx)
	claim, err := s.permits.Claim(ctx, weight)
	holder, found := l.End()
	if found && errors.Is(err, context.DeadlineExceeded) {
		return nil, &HeldError{Path: s.mutex.queue.Path(), Holder: holder, Err: err}
	}
	return s.hold("acquire", claim, err)
}

// TryAcquire takes weight permits if they are free and no call waits for them. Otherwise it fails as
// Mutex.TryLock does, and its other errors are those of Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, weight int) (*Hold, error) {
	claim, err := s.permits.Try(ctx, weight)
	return s.hold("try acquire", claim, err)
}

// hold is Mutex.hold, and names what the permits are.
func (s *Semaphore) hold(op string, claim *recipes.Claim, err error) (*Hold, error) {
	if mismatch := (*recipes.LimitError)(nil); errors.As(err, &mismatch) {
		return nil, &recipes.Error{Op: op, Path: s.Path(), Err: &LimitError{Path: mismatch.Path, Limit: mismatch.Limit, Stored: mismatch.Stored}}
	}
	return s.mutex.hold(claim, err)
}

// Do acquires weight permits, runs f, and releases them: see Mutex.Do.
func (s *Semaphore) Do(ctx context.Context, weight int, f func(ctx context.Context, hold *Hold) error) error {
	hold, err := s.Acquire(ctx, weight)
	if err != nil {
		return err
	}
	return hold.do(ctx, f)
}

// Limit returns the stored limit, in the view of the server that this client is connected to. It stores that of NewSemaphore if
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
	err := s.permits.Resize(ctx, limit)
	if busy := (*recipes.BusyError)(nil); errors.As(err, &busy) {
		err = fmt.Errorf("limit of %d permits is below the %d that are held or waited for: %w",
			limit, busy.Taken, &HeldError{Path: busy.Path, Holder: busy.Front, Taken: busy.Taken})
		return &recipes.Error{Op: "resize", Path: s.Path(), Err: err}
	}
	if err != nil {
		return fmt.Errorf("semaphore: %w", err)
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
