// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// ErrLocked is returned by TryLock when another contender holds the lock or waits
// for it, and by a Lock that waited until the deadline of its context.
var ErrLocked = errors.New("locked")

// ErrNoHolder is returned by Holder when the queue is empty.
var ErrNoHolder = errors.New("no holder")

// ErrNoLimit is returned by a Semaphore without a limit of its own, if no limit is stored.
var ErrNoLimit = permits.ErrNoLimit

// A HeldError names the holder of a lock or of permits that were not obtained, and of those that
// Resize was to remove. It matches ErrLocked, and the cause if there is one.
type HeldError struct {
	Path   string            // of the lock
	Holder recipes.Contender // the first in the queue, as a rule the holder; without a Name if it has left since
	Taken  int               // permits that are held or waited for, for TryAcquire and Resize; else 0
	Err    error             // the reason why Lock stopped waiting; nil for TryLock, TryAcquire and Resize
}

// Error returns the lock, its holder if it is known, and the time since which it has been held.
func (e *HeldError) Error() string {
	if e.Holder.Name == "" {
		return fmt.Sprintf("lock %s: taken by other clients during the call, which have left", e.Path)
	}
	s := fmt.Sprintf("lock %s: held by %q", e.Path, e.Holder.Owner)
	if !e.Holder.Since.IsZero() {
		s += " since " + e.Holder.Since.Format("2006-01-02 15:04:05Z07:00")
	}
	s += " (" + e.Holder.Name + ")"
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrLocked.
func (e *HeldError) Is(target error) bool { return target == ErrLocked }

// Unwrap returns the cause.
func (e *HeldError) Unwrap() error { return e.Err }

// A LimitError reports that the limit of a process's Semaphore is not the one that is stored in
// ZooKeeper: two processes were configured differently, or the limit was changed by Resize.
type LimitError struct {
	Path   string // of the node that stores the limit
	Limit  int    // of NewSemaphore
	Stored int
}

// Error names both limits.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit is %d in this process and %d in %s: use the same limit in all processes, or Resize", e.Limit, e.Stored, e.Path)
}
