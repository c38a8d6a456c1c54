// SPDX-License-Identifier: Apache-2.0

// Package assign divides named partitions among members that join and leave.
//
//	a, err := assign.New(client, "/jobs", &assign.Options{ID: "worker-7", Partitions: names})
//	…
//	err = a.Run(ctx, func(ctx context.Context, o *assign.Ownership) error {
//		return consume(ctx, o.Partition(), o.Token()) // until ctx is done
//	})
//
// A lock provides exclusivity; the assignment is advice. Each partition is a queue, and its owner holds the claim. The members elect a
// leader, which only decides which members queue.
//
// # What it promises
//
//   - At most one Ownership of a partition is open, on the conditions of recipes.Claim, whatever the leader, the records or
//     Options.Assign do. The tokens of a partition rise.
//   - A partition moves when its work has returned and its node is deleted, T/4 after its claim was lost, or at the end of
//     its session. T is the session timeout, and a tick the servers' tickTime.
//   - With a quorum, a leader, and work that returns, a partition is owned within RebalanceWait and the time that its former owner
//     takes to stop. After a crash, T, a tick and RejoinWait come in addition.
//   - With [Balanced], a member that joins or leaves moves at most its share, rounded up. Without a leader nothing moves.
//
// # What it does not promise
//
// A process that was paused beyond T can write after it lost a partition: only a resource that checks the token rejects that. If an operator
// deletes an owner's node, its partition may move before the owner is notified.
//
// # The states of a partition in a member
//
//	     named in the record           granted, and still named              work has returned
//	·  ──────────────────────►  queued  ──────────────────────►  owned, work  ─────────────────►  released
//	·  ◄──────────────────────    ▲                                                                  │
//	        not named             └──────────────────────── still named: after a back-off ───────────┘
//
// Work ends when its context does: ErrMoved, recipes.ErrLost, or the end of Run.
//
// # What each failure does
//
//	failure                            effect
//	─────────────────────────────────  ──────────────────────────────────────────────────────────────────────
//	work fails, panics or returns nil  the partition is released, and owned again by the same member
//	work never returns                 the member keeps that partition and no other; after StopTimeout,
//	                                   election.ErrOverrun: exit the process
//	crash, pause beyond T              free after T to T + a tick; moves RebalanceWait + RejoinWait later
//	killed, back within RejoinWait     no move if the ID is the same; no owner meanwhile
//	no leader, or a new one            owners go on; balanced records stay; RejoinWait begins again
//	two leaders, wrong or stale record a wrong wait or a brief ownership; never two owners
//	outage                             work stops at the deadlines; then members own the same partitions
//	Options.Assign panics, or returns  records stay; the leader logs it, and backs off
//	an invalid result
//
// # What it costs
//
// docs/performance.md has the requests. While nothing changes, each member sends a heartbeat every T/6. MaxPartitions,
// 10,000, is the limit: beyond it, assign ranges. To change the partitions, call [Assign.SetPartitions]: Options.Partitions
// are stored only if none are.
//
// # Nodes
//
// Below the path, `members` is a group, `leader` an election, `set` has the partitions, `assigned/<id>` the partitions of one member, and
// `owned/<partition>` is a queue. `set` and `assigned` are persistent.
package assign
