// SPDX-License-Identifier: Apache-2.0

// Package epoch fences state that is kept in ZooKeeper itself, and counts the terms of an election: 1, 2, 3 and so on.
// The winner of an election claims the next epoch, and each of its writes checks that epoch.
//
//	epochs, err := epoch.New(client, "/election/controller-epoch", &epoch.Options{Owner: "pod-7"})
//	…
//	err = controller.Run(ctx, func(ctx context.Context, term *election.Term) error {
//		e, err := epochs.Claim(ctx, term.Claim)
//		if err != nil {
//			return err
//		}
//		_, err = e.Commit(ctx, &zk.SetDataRequest{Path: "/assignment", Data: plan, Version: -1})
//		return err
//	})
//
// # What it promises
//
// No write through [Epoch.Commit] is carried out once a later epoch of the same path has been claimed, whatever its
// writer believes and however late it arrives. It fails as a whole, with a [*StaleError] that names both epochs. Numbers
// rise by one from claim to claim, a term has at most one epoch, and the tokens of epochs rise with their numbers.
//
// This holds within one history of the ensemble, under two conditions: all writes to be fenced go through Commit, and only this
// package writes the epoch's node, see below. The promise does not depend on clocks, timeouts or scheduling.
//
// # Why two checks
//
// Each transaction checks the claim's own node ([recipes.Claim.Commit]), to prevent writes after the term, and the version of
// the epoch's node, to stop a leader whose own node still exists, but that an operator or the leader of another election with
// the same epochs has superseded.
//
// # What it does not promise
//
//   - A grant alone excludes no other client: the last leader's requests may still be carried out until its node is gone. So
//     read the state after the claim.
//   - An error that wraps recipes.ErrUncertain means that no answer arrived: the operations were carried out as a whole, or
//     not at all. After any other error nothing was written.
//   - The result of [Epochs.Current] and [Epochs.Observe] may be out of date. To decide whether to obey a leader, compare
//     numbers.
//   - Reads are not fenced, nor are writes to other resources than this ensemble. Other resources check the term's token,
//     or the number instead (fencing.Token(e.Number())), but never a mixture of the two.
//
// # The node
//
// The path names a persistent node that holds one line of JSON: format, epoch, token, owner, node and time. The first
// claim creates it, and missing nodes above it. An existing empty node is used as it is, so that you can create it with
// other permissions. A node with any other content is refused. So is a path that is the queue of a lock or an election, at
// its first use: a contender that joins the queue may write its node.
//
// If an operator deletes the node, no write of the epoch passes while it is missing, and the next term begins with 1 again:
// to compare across such a deletion, compare tokens. To continue the count, after a deletion or on another ensemble, write
// {"format":1,"epoch":41} into the node; the next epoch is 42. That ends a leader's epoch, and not its term. Deleting and
// recreating the node does not end the epoch: the version restarts, and may be the one that the leader checks. So to end an
// epoch, write the node and do not delete it; and recreate it only while there is no leader.
//
// # The states of an epoch
//
//	     Claim                       the term is lost or resigned
//	·  ─────────►  Commit passes  ─────────────────────────────────►  Commit fails: ErrLost,
//	               │                                                  and ErrStale once there is a later epoch
//	               └───────────────────────────────────────────────►  Commit fails: ErrStale
//	                 another client wrote or deleted its node
//
// # What each failure does
//
// The table of package recipes lists what a failure of the session does to the term. If the reply to a claim is lost, Claim
// reads the node, which shows whose epoch it is. A lost reply to a Commit is not resolved.
//
// A claim costs a read and one transaction.
package epoch
