// SPDX-License-Identifier: Apache-2.0

// Package election provides leader election on ZooKeeper. At most one candidate leads at a time. It is notified when its
// term ends, and has a token by which resources reject the writes of its predecessors.
//
//	e, err := election.New(client, "/election/controller", &election.Options{ID: "pod-7"})
//	…
//	err = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
//		return control(ctx, term.Token()) // until ctx is done: the term has ended, or the process stops
//	})
//
// # What it does not promise
//
// A process that is paused, or whose machine is suspended, can act as the leader after its term was lost and before it
// can know. Only a resource that checks the token of the [Term] is safe from that. The documentation of package recipes
// states the conditions under which a leader is notified before another candidate leads, and what ends them.
//
// The leader that [Election.Leader] and [Election.Observe] return is the first candidate in the queue as one server sees
// it. Its term may have ended already, and the leader itself may not have been notified yet. Use it for display, routing
// and hints. To decide whether to obey a leader, compare tokens.
//
// There is no IsLeader method: its answer would be out of date when it returns. Use [Term.Done], [Term.Err] and the
// context of the work. [Election.Ready] is for a readiness probe, whose answer is out of date in any case.
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
// So work that stops slowly never overlaps the next term of its own process. It overlaps a term of another process only if
// its own term was lost and the work continues after its context is done. After a loss the work has T/4 to stop when the
// leader was partitioned from the servers, and T/8 when the servers were partitioned from each other. T is the session
// timeout, and at least four ticks. Work that needs longer needs a longer T, or a resource that checks the token.
//
// # Who leads next
//
// Terms are granted in the order in which the candidates' nodes were created. A leader can name the candidate that is to lead
// next, with [Term.HandOver], and candidates can have priorities, with Options.Priority. Neither changes that order: the
// candidates ahead step back when they could lead, each by deleting its node and joining again at the end of the queue. So the
// promises about one leader, tokens and notification are the same as without.
//
//	leader: HandOver("c")         ►  L  a  b  c  d
//	leader resigns                ►  a  b  c  d
//	a and b step back             ►  c  d  a  b
//
// Both are preferences with a bound. A target of a hand-over that has left is ignored. A candidate steps back for one of a
// higher priority only once that has shown that it lives, and only for Options.PriorityWait after it could first have led. A
// candidate of a higher priority that is dead, and whose session has not expired, delays the election no longer than that,
// unless it is the first itself. Candidates of other libraries and of older versions do not step back.
//
// # What each failure does
//
// The table of package recipes applies, where a holder is the leader and a waiter is another candidate. Particular to
// elections:
//
//   - When a term is lost, the context of its work is cancelled with the reason as its cause. Run waits for the work, and
//     campaigns again after the cool-down, at the end of the queue.
//   - Campaign returns an error only if ctx has ended, the client was closed, a server refuses, or Options.Fence fails.
//     While the ensemble is unavailable it waits, and so does Run.
//   - Run whose ctx has ended returns nil if everything was released, and recipes.ErrUncertain if a node may remain until
//     its session ends. It returns within StopTimeout and ReleaseTimeout even if ZooKeeper is unavailable. [Election.Run]
//     states which values fit into the 30 s that Kubernetes gives a process.
//   - Work that returns an error while its term lasts ends Run with that error, unless Options.Retry has it retried. That
//     includes fencing.ErrStale if the term was not lost: then the resource has admitted a token of another history of the
//     ensemble, or of another path.
//   - Work that has not returned within StopTimeout ends Run with ErrOverrun. Its node stays until the work has returned,
//     so that no other candidate leads meanwhile, unless the session ends first: exit the process.
//   - A process that is alive but of no use keeps its session, and leads. Options.Health has Run check it: a check that
//     fails, or does not answer in time, ends the term with ErrUnhealthy.
//   - After a leader that did not resign, the next one waits for Options.LockDelay and calls Options.Fence before its term
//     begins. Both are off by default. A leader that crashed, or that lost its term (even if it calls Resign then), counts as
//     one that did not resign; one whose Resign returned recipes.ErrUncertain may. The promise holds if all candidates set both
//     options: one without them neither waits nor fences, and its own crash goes unnoticed. While it waits, the candidate
//     is the leader that observers see.
//   - Observe continues across lost connections and sessions. It yields nothing while there is no leader, and skips to the
//     newest leader for a slow reader.
//
// # What it costs
//
// A candidate costs what a contender does, and a hand-over one delete and one listing by the next candidate. Clients with a
// candidate or a leader send heartbeats: six quorum writes in each session timeout and client. With 10, 1 000 and 100 000
// clients at a timeout of 10 s that is 6, 600 and 60 000 a second, the last of which is more than an ensemble can process.
// A few candidates are enough. Let the other clients observe, which costs two watches for each client and no heartbeat.
// Each change of a value costs a read by each of these clients: publish addresses, not progress.
//
// A candidate that could lead while others wait behind it reads whether the term was handed over to one of them: one read for
// each such grant, none if no candidate waits behind it. A candidate that steps back costs a delete, a join and a listing. A
// candidate with a priority lists the queue when it has joined, and watches the nearest candidate ahead that has at least its
// priority. Once there is none, it follows the first candidate as an observer does: for each one of a lower priority it lists
// the queue and, if it is to lead next, writes once.
// Package recipes has the details.
//
// # Where to look next
//
// [Election.Run] for a process that works while it leads; [Election.Campaign] for one that decides for itself when to
// stop; examples/drain for a worker that finishes its item on SIGTERM and aborts it when its term is lost; package fencing
// for the token; package recipes for the client, the failures and the costs; package lock for a critical section.
package election
