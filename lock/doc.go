// SPDX-License-Identifier: Apache-2.0

// Package lock provides a mutual exclusion lock, a read/write lock, a weighted semaphore, slots with numbers, and all or none of several locks, on
// ZooKeeper. The holder is notified when it loses the lock, and has a greater token than every earlier holder.
//
//	mu, err := lock.New(client, "/locks/ledger", nil)
//	…
//	err = mu.Do(ctx, func(ctx context.Context, hold *lock.Hold) error {
//		return store.Put(ctx, row, hold.Token()) // the store rejects the token if it is stale
//	})
//
// # What it does not promise
//
// A process that is paused, or whose machine is suspended, can act after it lost the lock and before it can know. Only a resource
// that checks the token is safe from that. Package recipes states the conditions under which a holder is notified before another
// client is granted the lock.
//
// A lock is not re-entrant, unless Options.Reentrant is set: a holder that locks the same path again waits for itself, until
// its context ends. A lock does not make a resource exclusive: clients that do not take the lock can still use the resource.
//
// # Efficiency and correctness
//
// An efficiency lock prevents duplicate work that is only wasteful, and fails rarely. A correctness lock protects data: each
// write carries the token and the resource checks it (fencing.Gate, a database row), or goes to ZooKeeper itself with
// Hold.Commit.
//
// # The states of a lock
//
//	      Lock                first in the queue, fresh proof          Unlock
//	·  ─────────►  queued  ───────────────────────────────►  Hold  ───────────►  ended: ErrReleased
//	·  ◄─────────    │                                         │
//	     ctx ended   │ session lost: again, at the end         └──────────────►  ended: ErrLost and a cause
//	                 └──► queued                                     lost
//
// TryLock goes from · to Hold, or stays and returns a [HeldError]. A [Hold] is used once; the [Mutex] keeps no state of it.
//
// # What each failure does
//
// The table of package recipes applies, where a holder is a Hold and a waiter is a call of Lock. Particular to locks:
//
//   - A Hold that was lost stays lost: another client may have held the lock since.
//   - [Mutex.Do] releases the lock after the work has returned: work that stops late delays the next holder, and never overlaps
//     with it unless the lock was lost.
//   - A Lock whose ctx ends deletes its node before it returns: one round trip as a rule, ReleaseTimeout and a quarter of the
//     session timeout at most. While no server is connected it does not wait, and the node is deleted in the background.
//   - Unlock is bounded by ReleaseTimeout, even if its ctx ends.
//   - After a panic of the work, Do releases the lock, and panics on.
//   - After a holder that did not release, the next one waits for Options.LockDelay and calls Options.Fence, both off by default,
//     if all users of the path set the same of both: docs/choosing.md. An RWMutex, a Semaphore, Slots and All cannot have them.
//
// # Errors
//
// After any error of Lock and TryLock, nothing is held. After Unlock, Hold.Err matches recipes.ErrLost, with the cause
// recipes.ErrReleased.
//
//	error                     returned by                meaning, and what to do
//	────────────────────────  ─────────────────────────  ────────────────────────────────────────────────────────────
//	ErrLocked, *HeldError     TryLock; Lock, at the      another contender holds the lock or is ahead; the *HeldError
//	                          deadline of its context;   names the first. Wait longer, or leave the work to it
//	                          Resize
//	*LimitError, ErrNoLimit   Semaphore, Slots           processes disagree about the limit, or none is stored
//	recipes.ErrLost           Unlock, Do, Hold.Err; a    the lock was lost before it was unlocked; the cause is found
//	                          Lock under a lost hold     too. Stop the work, take the lock again, begin again
//	recipes.ErrUncertain      Unlock, Do                 no server confirmed the release, which goes on in the
//	                                                     background. The session's end frees the lock at the latest
//	*recipes.UnreleasedError  Lock, TryLock, Do          the former holder did not release, and LockDelay or Fence did
//	                                                     not end well
//	fencing.ErrStale          the resource               a later holder has written. Stop the work; do not repeat the
//	                                                     write with this token
//	recipes.ErrClosed         every call                 the client was closed
//	another one               every call                 the error of ctx, or a server's refusal, such as
//	                                                     zk.ErrNoAuth: a repeated call meets it again
//
// # What it costs
//
// Keep the Mutex: an uncontended Lock and Unlock are then two requests. docs/performance.md has the other numbers.
package lock
