// SPDX-License-Identifier: Apache-2.0

// Package lock is a mutual exclusion lock on ZooKeeper, whose holder is told when it is lost and has a number to prove
// that it was the last to get it.
//
//	mu, err := lock.New(client, "/locks/ledger", nil)
//	…
//	err = mu.Do(ctx, func(ctx context.Context, hold *lock.Hold) error {
//		return store.Put(ctx, row, hold.Token()) // the store, not the lock, has the last word
//	})
//
// # What it does not promise
//
// A process that is paused, or whose machine is suspended, can act after it lost the lock and before it can know. Only a
// resource that checks the token is safe from that. The conditions under which a holder is told before anybody else holds
// the lock, and what ends them, stand in the documentation of package recipes.
//
// A lock is not re-entrant: a holder that locks the same path again waits for itself, until its context ends. It does not
// make a resource exclusive for those who do not ask it.
//
// # Which lock you have
//
// An efficiency lock keeps work from being done twice where that only wastes it: a report that is mailed twice, a cache
// that is filled twice. A correctness lock keeps data whole: if two processes believe that they are alone, something
// breaks. They are the same code here, and the difference is at the resource:
//
//	what the work writes to                                       you have
//	────────────────────────────────────────────────────────────  ─────────────────
//	checks the token with every write (fencing.Gate, a database   a correctness lock
//	row, an operation of your protocol)
//	is ZooKeeper itself, by Hold.Commit                           a correctness lock
//	does not check: a plain file, a mail server, an API without   an efficiency lock
//	a conditional write
//
// An efficiency lock of this package goes wrong rarely, and on stated conditions. Rarely is not never, and the pause that
// makes it go wrong comes when the machine is busiest.
//
// # The states of a lock
//
//	      Lock                  first in line, fresh proof             Unlock
//	·  ─────────►  in line  ───────────────────────────────►  Hold  ───────────►  ended: ErrReleased
//	·  ◄─────────     │                                         │
//	     ctx ended    │ session over: again, at the end         └──────────────►  ended: ErrLost and a cause
//	                  └──► in line                                   lost
//
// TryLock goes from · to Hold or stays, with a [HeldError]. A [Hold] is used once; the [Mutex] has no state of its own.
//
// # What each failure does
//
// That is the table of package recipes, where a holder is a Hold and a waiter a call of Lock. What is particular here:
//
//   - A Hold that was lost stays lost. Unlock then returns recipes.ErrLost with its cause, and touches nothing of others.
//     Take the lock again, and begin the work again: in between somebody else may have held it.
//   - [Mutex.Do] waits for the work to return, however long that takes after its context is done. The lock is given back
//     after that, so work that stops late delays the next holder, and never overlaps with it unless the lock was lost.
//   - A Lock whose ctx ends takes its node away before it returns: one round trip as a rule, UnlockTimeout at most, and
//     nothing at all while no server is connected; then the node goes in the background.
//   - Unlock has a bound of its own, UnlockTimeout, whatever becomes of its ctx. After recipes.ErrUncertain the lock is
//     still taken away in the background, and free when the session ends at the latest.
//   - A panic of the work in Do gives the lock back and goes on.
//
// # What it costs
//
// A Lock and an Unlock that nobody contends for are two requests on a path that the Mutex knows, so keep the Mutex. A
// TryLock reads first: three requests in all if it gets the lock, two if it does not. A Lock that waits almost until the
// deadline of its context reads the holder, which is two requests more, shared by the calls on one Mutex. While anything is held or waited
// for, six quorum writes go out in each session timeout, for the whole Client. With 10, 1 000 and 100 000 clients at a
// timeout of 10 s that is 6, 600 and 60 000 writes a second, the last of which is more than an ensemble carries; package
// recipes says what to do then, and what a long line costs.
//
// # Where to look next
//
// [Mutex] and [Hold]; package fencing for the other half of a correctness lock; package recipes for the client, the
// failures and the costs; package election for work that has a leader rather than a critical section.
package lock
