// SPDX-License-Identifier: Apache-2.0

// Package fencing lets a resource refuse the writes of clients that no longer hold the lock on it.
//
// A client that is granted a lock or a leadership gets a [Token], greater than that of every earlier grant of the same path,
// and sends it along with each write. The resource keeps a [Gate] and asks it before each write: once a newer token has
// been admitted, older ones are refused, however late they arrive and whatever their senders believe.
//
// # What it does not promise
//
//   - Only a resource that checks is protected. A holder can be paused, lose the lock, wake up and write before it can
//     know; nothing on the holder's side prevents that.
//   - A refusal begins with the newer holder's first write, not with its grant. Until then the older holder's writes
//     are admitted; in the order of the resource they come first, and overwrite nothing of the newer holder's.
//   - [Gate.Admit] decides; it does not write. An admitted write that is carried out later may land after a newer one.
//     The resource makes both one step, under a lock of its own (see the example of Gate) or in one statement.
//   - A Gate lives in memory and forgets at a restart. A resource that outlives its process stores the newest token with
//     the data, in the same transaction, and hands it to [Gate.Reset] before it serves. A database is its own gate,
//     with one row for each path: UPDATE gate SET token = $1 WHERE path = $2 AND token <= $1 begins the transaction, and
//     if it changes no row, the token is stale and the transaction rolls back. (A token beside each row of the data would
//     guard that row only: an old holder could still write the rows that the new one has not reached yet. A cluster in
//     which several servers take writes needs more: see sqlfence.)
//   - Tokens of one path are ordered within one history of the ensemble. An ensemble that was wiped, or restored from a
//     backup, grants the same numbers again. A Gate refuses those that are lower than its newest, and admits those that are
//     equal or higher, from whichever history. See Histories.
//   - Tokens of different paths are not comparable: one Gate, one path.
//   - Reads are not fenced. A former holder can read, and act on it elsewhere.
//   - Equal tokens are admitted, since a holder writes many times. Order among one holder's own writes, and a repeated
//     delivery of one of them, are up to the holder.
//   - A token is a number, not a secret: a gate stops stale writes, not malicious ones.
//
// # Histories
//
// The guards of this module store the id of a history beside each token, if their options name one: Client.History of
// package recipes returns that of the ensemble. They then refuse a token of another history with a [*HistoryError],
// whatever its number is, until an operator resets the guard. [Gate] has no ids; a service that keeps one checks the id
// itself, before it calls Admit.
//
// A wipe makes a new id, and so is detected. A restore brings the old id back: an operator deletes the node
// lockkeeper-history at the root of the clients' namespace, as a step of every restore, before clients connect. The next
// client makes a new id.
//
// # The states of a gate
//
//	                Admit(t)                 Admit(t), t > n: n = t
//	  ┌───────┐                ┌──────────────────┐ ───┐
//	  │ empty │ ─────────────► │ n is the newest  │    │
//	  └───────┘                └──────────────────┘ ◄──┘
//	   newest 0 ◄─────────────      Admit(t), t = n: admitted, no change
//	                Reset(0)        Admit(t), t < n: refused, *StaleError
//
//	Admit(t), t ≤ 0: refused in either state, ErrInvalid, no change
//	Reset(n), n > 0: n is the newest, whatever was
//
// # Where to look next
//
// Package lock and package election of this module hand out tokens; the example of [Gate] is a guarded resource in
// twenty lines.
//
// Guards for real resources stand beside this package, each with the condition under which its guarantee holds: filefence
// for what the processes of one host write, sqlfence for a database, objectfence for an object store, redisfence for Redis,
// and httpfence for a service that is asked over HTTP and decides by any of them; grpcfence, a module of its own, is the same
// for gRPC. Package fencetest is the suite that a guard must pass: run it on a guard of your own as well.
//
// This package imports the standard library only, so that a storage server can use it without knowing of ZooKeeper; a
// resource in another language needs no more than the comparison of two 64-bit integers.
package fencing
