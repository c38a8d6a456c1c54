// SPDX-License-Identifier: Apache-2.0

// Package barrier holds processes back until they may continue: a [Barrier] until it is removed, and a [Double] until n
// processes are there, and again until all of them have finished.
//
//	migration, err := barrier.New(client, "/jobs/migration", nil)
//	…
//	err = migration.Set(ctx)    // one process, before the others begin
//	err = migration.Remove(ctx) // when they may continue
//	err = migration.Wait(ctx)   // each of the others
//
//	phases, err := barrier.NewDouble(client, "/jobs/phases", 3, nil)
//	…
//	round, err := phases.Enter(ctx) // waits until three are there
//	… compute …
//	err = round.Leave(ctx)          // waits until the three have left
//
// T is the session timeout that the servers granted; a tick is the servers' tickTime.
//
// # What it promises
//
//   - [Barrier.Wait] returns nil only if the barrier was not set at some instant during the call, in ZooKeeper's commit
//     order. A server that lags behind, or a leader that was deposed, decides nothing.
//   - [Double.Enter] returns a round only if n members had nodes for it at the same time, after the round before it was over.
//     Exactly n members are in a round. Others wait for the next one. A member has a node from Enter until its deletion is
//     confirmed, or its session has ended: one that was killed, or whose Enter returned recipes.ErrUncertain, is counted
//     until then.
//   - [Round.Leave] returns nil only when each member of the round has left, has died, or has lost its session. The
//     members of two rounds are never confused: each round has its own nodes.
//   - No error or cancellation leaves a member's node behind, once the session can be reached or has ended. A node of
//     another session is never deleted.
//
// # What it does not promise
//
// A barrier is not a lock. A member that loses its session in a round is not stopped, and the others do not wait for it then:
// they can leave, and begin the next round, while it still computes. [Round.State] shows whether a member is registered. Where
// that would corrupt data, take a lock or a term in the round, and check its token at the resource: see package fencing.
//
// A barrier that was removed can be set again by the time that a Wait returns.
//
// # What each failure does
//
//	failure                      to a process that waits at a Barrier      to a member of a Double
//	───────────────────────────  ────────────────────────────────────────  ───────────────────────────────────────────────
//	connection reset, one        waits on, at another server               waits on; its node stays
//	server killed
//	session expired, or          waits on in the next session              registers again in the next session. Members that
//	abandoned after 2 T                                                    read its state meanwhile do not wait for it; if the
//	                                                                       round is over by then, an Enter waits for the next one
//	process killed               –                                         its node is deleted T to T + a tick later. Until
//	                                                                       then it is counted, and waited for
//	process paused               decides when it wakes                     as killed, if that is longer than T
//	process that set it killed   waits on: the barrier stays set           –
//	all servers down             waits on                                  waits on; sessions count T anew afterwards
//	context ended                returns its error                         Enter: its node is deleted. Leave: it has left.
//	                                                                       With recipes.ErrUncertain as soon as a server
//	                                                                       can be reached: until then as killed
//	barrier removed and set      passes, if it waited before               –
//	again
//	node deleted by an           passes: that is how a barrier is          a member's: restored. The state: Enter begins a
//	operator                     removed                                   new barrier, Leave returns recipes.ErrDeleted
//	another size in another      –                                         Enter returns a *SizeError that shows both, unless
//	process                                                                no member is there
//
// A write without an answer is repeated. A repeated [Barrier.Remove] does not remove a barrier that another process has set in
// between. A repeated [Barrier.Set] does set one again that another process has removed in between.
//
// # What it costs
//
// A member of a Double takes four to eight requests to enter, and two to four to leave, however large n is: docs/performance.md. Each
// reads the names of all members once in a round, 15 bytes each, so that a thousand members read 15 MB together. Members that
// wait for others ask once in T/2 whether these have died. No heartbeats are sent.
//
// To admit n of many processes, use lock.Semaphore.
//
// # Nodes
//
// A Barrier is set while the node at its path exists, whichever program created it: Curator's DistributedBarrier and
// Kazoo's Barrier use the same node.
//
// A Double keeps its state in <path>/state, and its members below <path>/<czxid of that, base 36>-<round>, as ephemeral
// nodes whose data is the owner that [recipes.Options] names. It shares no path with the double barriers of other
// libraries.
package barrier
