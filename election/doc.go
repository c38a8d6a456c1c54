// SPDX-License-Identifier: Apache-2.0

// Package election provides leader election on ZooKeeper. At most one candidate leads at a time. It is notified when its
// term ends, and has a token by which resources reject the writes of its predecessors.
//
//	e, err := election.New(client, "/election/controller", &election.Options{Owner: "pod-7"})
//	…
//	err = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
//		return control(ctx, term.Token()) // until ctx is done: the term has ended, or the process stops
//	})
//
// # What it does not promise
//
// A process that is paused, or whose machine is suspended, can act as the leader after its term was lost and before it can know.
// Only a resource that checks the token of the [Term] is safe from that. Package recipes states the conditions under which a
// leader is notified before another candidate leads.
//
// The leader that [Election.Leader] and [Election.Observe] return is the first candidate in the queue as one server sees it. Its
// term may have ended: to decide whether to obey a leader, compare tokens. There is no IsLeader method, whose answer would be out
// of date: use [Term.Done] and the context of the work. [Election.Ready] is for a readiness probe.
//
// # The states of a candidate
//
//	     Campaign              first in the queue, fresh proof           Resign
//	·  ───────────►  candidate  ────────────────────────────►  Term  ───────────►  ended: ErrReleased
//	·  ◄───────────      │                                       │
//	     ctx ended       │ session lost: again, at the end       └──────────────►  ended: ErrLost and a cause
//	                     └──► candidate                               lost
//
// Run repeats this cycle, and ends each term in this order:
//
//	campaign  ────►  work runs  ────►  its context is   ────►  work has   ────►  node deleted  ────►  cool-down
//	   ▲                               cancelled, if it        returned                                  │
//	   │                               has not returned           │                                      │
//	   └──────────────────────────────────────────────────────────┼──────────────────────────────────────┘
//	                                                              │ not within StopTimeout
//	                                                              ▼
//	                                                         ErrOverrun: exit the process
//
// So work overlaps a term of another process only if its own term was lost and the work continues after its context is done. It
// has T/4 to stop when the leader was partitioned from the servers, and T/8, less the delay of a late ping, when the servers were
// partitioned from each other. T is the session timeout, and at least four ticks. Work that needs longer needs a longer T, or a
// resource that checks the token.
//
// # Who leads next
//
// Terms are granted in the order in which the candidates' nodes were created. A leader can name the candidate that is to lead
// next, with [Term.HandOver], and candidates can have priorities, with Options.Priority. Neither changes that order: the
// candidates ahead yield when they could lead, and join again at the end of the queue.
//
//	leader: HandOver("c")  ►  L  a  b  c  d
//	leader resigns         ►  a  b  c  d
//	a and b yield          ►  c  d  a  b
//
// A target of a hand-over that has left is ignored. A candidate yields to one of a higher priority only once that has shown
// that it lives, and only for Options.PriorityWait after it could first have led: a dead candidate of a higher priority delays
// the election no longer, unless it is the first itself. Candidates of other libraries and of older versions do not yield.
//
// # What each failure does
//
// The table of package recipes applies, where a holder is the leader and a waiter is another candidate. Particular to
// elections:
//
//   - When a term is lost, Run cancels the context of its work with the reason as its cause, waits for the work, and
//     campaigns again after the cool-down.
//   - Campaign returns an error only if ctx has ended, the client was closed, a server refuses, or Options.Fence fails.
//     While the ensemble is unavailable it waits, and so does Run.
//   - Run whose ctx has ended returns nil if everything was released, and recipes.ErrUncertain if a node may remain until
//     its session ends. [Election.Run] states within what time it returns, even if ZooKeeper is unavailable, and which
//     values fit into the 30 s that Kubernetes gives a process.
//   - Work that returns an error while its term lasts ends Run with that error, unless Options.Retry has it retried.
//     fencing.ErrStale then means that the resource has admitted a token of another history of the ensemble, or of another path.
//   - Work that has not returned within StopTimeout ends Run with ErrOverrun. Its node stays until the work has returned,
//     so that no other candidate leads meanwhile, unless the session ends first: exit the process.
//   - An unfit process that is alive can lead. Options.Health has Run check it: a check that fails, or does not answer in
//     time, ends the term with ErrUnhealthy.
//   - After a leader that did not resign, the next one waits for Options.LockDelay and calls Options.Fence before its term
//     begins, both off by default, if all candidates set the same of both: docs/choosing.md. While it waits, observers see it as the leader.
//   - Observe continues across lost connections and sessions. It yields nothing while there is no leader, and skips to the
//     newest leader for a slow reader.
//
// # What it costs
//
// Only the leader writes heartbeats. Clients that must not lead observe: two watches each, and a read for each change of a value.
// docs/performance.md has the numbers.
package election
