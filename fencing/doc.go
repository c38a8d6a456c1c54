// SPDX-License-Identifier: Apache-2.0

// Package fencing lets a resource refuse the writes of clients that no longer hold the lock on it.
//
// A client that is granted a lock or a leadership gets a [Token], greater than that of every earlier grant of the same path,
// and sends it along with each write. The resource has a [Gate] and checks each token with it before it writes. Once the
// gate has admitted a newer token it refuses older ones, however late they arrive and whatever their senders believe.
//
// # What it does not promise
//
//   - Only a resource that checks tokens is protected. A holder can be paused, lose the lock, resume and write before it can
//     detect the loss; no mechanism on the holder's side prevents that.
//   - Refusals begin with the newer holder's first write, not with its grant. Until then the older holder's writes are
//     admitted; they precede the newer holder's writes in the resource's order, and overwrite none of them.
//   - [Gate.Admit] decides; it does not write. An admitted write that is executed later may land after a newer one. The
//     resource makes the check and the write one step, under its own lock (see the example of Gate) or in one statement.
//   - A Gate is in memory and loses its state at a restart. A resource that outlives its process stores the newest token
//     with the data, in the same transaction, and passes it to [Gate.Reset] before it serves requests. A database can be its
//     own gate, with one row for each path: see sqlfence.
//   - Tokens of one path are ordered within one history of the ensemble. One that was wiped, or restored from a backup, grants
//     the same numbers again, and a Gate admits them if they are equal or higher. See Histories.
//   - Tokens of different paths are not comparable: one Gate, one path.
//   - Reads are not fenced. A former holder can read, and act elsewhere on what it read.
//   - Equal tokens are admitted. The holder itself is responsible for the order and for duplicates of its own writes.
//   - Holds that several clients share, such as readers, have tokens too. [Gate.AdmitShared] checks them, and never
//     makes one of them the newest. The guards in the packages beside this one check exclusive tokens only: do not pass them
//     the token of a shared hold.
//   - A token is a number, not a secret: a gate stops stale writes, not malicious writes.
//
// # Histories
//
// A guard of this module whose options name a history stores the history's id beside each token; Client.History of package
// recipes returns the id of the ensemble's history. The guard then refuses a token of another history with a
// [*HistoryError], whatever the token's number, until an operator resets the guard. [Gate] stores no ids; a service that
// uses a Gate checks the id itself before it calls Admit.
//
// A wipe leads to a new id and is therefore detected. A restore brings the old id back: as a step of every restore, before
// clients connect, an operator deletes the node lockkeeper-history at the root of the clients' namespace. The next client
// creates a new id.
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
//	AdmitShared(t): admitted or refused as by Admit, never a change
//	Reset(n), n > 0: n is the newest, whatever it was before
//
// # Further reading
//
// Guards for real resources are in the packages beside this one, each with the condition under which its guarantee holds. To
// write a guard for another resource, call [Check] or [CheckInHistory] in the step that writes, and run package fencetest on it.
//
// This package imports the standard library only. A resource in another language needs only the comparison of two 64-bit
// integers.
package fencing
