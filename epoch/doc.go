// SPDX-License-Identifier: Apache-2.0

// Package epoch fences state that is kept in ZooKeeper itself, and counts the terms of an election: 1, 2, 3 and so on.
// The winner of an election claims the next epoch, and its writes carry a check on it.
//
//	epochs, err := epoch.New(client, "/election/controller-epoch", &epoch.Options{ID: "pod-7"})
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
// writer believes and however late it comes: it fails as a whole, with a [*StaleError] that names both epochs. Numbers
// rise by one from claim to claim, one term has one epoch at most, and the tokens of epochs rise with their numbers.
//
// This holds within one history of the ensemble, on two conditions. All that is to be fenced is written through Commit,
// for a check that is not part of a transaction is over before the write begins. And nobody but this package writes the
// epoch's node, see below. It does not depend on clocks, on timeouts, or on anybody's being scheduled: the ensemble
// decides, in the order of its transactions.
//
// # Why two checks
//
// Each transaction checks the claim's own node and the version of the epoch's node.
//
// The own node is what [recipes.Claim.Commit] checks by itself, and for the writes of one election that is enough: the node
// is gone before another leads. With it nothing is written between two terms either, nor after one was resigned. And it
// still holds where versions begin anew, because somebody has deleted the epoch's node: version 0 may be that of epoch 1
// for the second time.
//
// The epoch's version stops a leader whose own node is still there: one that was superseded by an operator who has written
// the epoch's node, or by the leader of another election that shares the epoch's path. And it gives everybody a number
// that is small and dense, to be stored, shown and compared.
//
// # What it does not promise
//
//   - A grant alone shuts nobody out, and needs not: between the end of a term and the next claim nobody can write. But
//     what the last leader has sent may still be carried out until its node is gone. So read the state after the claim.
//   - An error that wraps recipes.ErrUncertain means that the answer did not come back: the operations were carried out as
//     a whole, or not at all. After any other error nothing was written.
//   - What [Epochs.Current] and [Epochs.Observe] tell may be over already. To decide whether to obey, compare numbers.
//   - Reads are not fenced, nor is what is written elsewhere than in this ensemble. Other resources check the term's
//     token, or the number in its place (fencing.Token(e.Number())), but not sometimes the one and sometimes the other.
//
// # The node
//
// The path is that of a persistent node with a line of JSON: format, epoch, token, id, node and time. It is made with the
// first claim, and those above it are if they are missing. A node that is there and empty is taken as it is, for those who
// want other permissions on it. What holds anything else is refused, and so is a path that is the queue of a lock or an
// election, at its first use: a contender that joins the queue may write its node.
//
// If it is deleted by hand, no write of the epoch passes as long as it is missing, and the next term begins with 1 again:
// nobody knows what the number was. Whoever compares numbers over that has to compare tokens. To have the count go on,
// after that or on another ensemble, write {"format":1,"epoch":41} into it; the next is 42. Written while somebody leads,
// that ends the leader's epoch, and not its term. Deleted and made again while somebody leads, it does not: its version
// begins anew, and may be the one that the leader checks, whose writes then pass until its term ends. So write the node to
// end an epoch, and do not delete it; and make it again only when nobody leads.
//
// # The states of an epoch
//
//	     Claim                       the term is lost or resigned
//	·  ─────────►  Commit passes  ─────────────────────────────────►  Commit fails: ErrLost,
//	               │                                                  and ErrStale once there is a later epoch
//	               └───────────────────────────────────────────────►  Commit fails: ErrStale
//	                 its node was written or deleted by others
//
// # What each failure does
//
// That of a session, to the term, is in the table of package recipes. A lost reply to a claim is resolved by reading the
// node: it says whose epoch it is. One to a Commit is not, as what it wrote is the caller's.
//
// # What it costs
//
// A claim costs a read and one transaction; a Commit what the transaction costs without it, as checks are not stored; a
// watch for each client that observes.
//
// # Where to look next
//
// [Epochs] for what to call; package election for the term; package fencing for resources outside of ZooKeeper.
package epoch
