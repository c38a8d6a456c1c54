// SPDX-License-Identifier: Apache-2.0

// Package election is leader election on ZooKeeper: at most one of those who campaign leads at a time, is told when its
// term is over, and has a number by which others refuse its predecessors.
//
//	e, err := election.New(client, "/election/controller", &election.Options{ID: "pod-7"})
//	…
//	err = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
//		return control(ctx, term.Token()) // until ctx is done: the term is over, or the process ends
//	})
//
// # What it does not promise
//
// A process that is paused, or whose machine is suspended, can act as the leader after its term was lost and before it
// can know. Only a resource that checks the token of the [Term] is safe from that. The conditions under which a leader
// is told before another leads, and what ends them, stand in the documentation of package recipes.
//
// Who leads, as [Election.Leader] and [Election.Observe] tell it, is who is first in line as one server sees it: it may
// be over already, and the leader itself may not have learnt of it. It is for people, for routing and for hints. To
// decide whether to obey, compare tokens.
//
// There is no IsLeader: its answer would be out of date when it returns. [Term.Done], [Term.Err] and the context of the
// work are what to ask.
//
// # The states of a candidate
//
//	     Campaign                first in line, fresh proof             Resign
//	·  ───────────►  candidate  ────────────────────────────►  Term  ───────────►  ended: ErrReleased
//	·  ◄───────────      │                                       │
//	     ctx ended       │ session over: again, at the end       └──────────────►  ended: ErrLost and a cause
//	                     └──► candidate                               lost
//
// Run goes round, and ends each term in this order:
//
//	campaign  ────►  work runs  ────►  its context is   ────►  work has   ────►  node deleted  ────►  cool-down
//	   ▲                               cancelled, if it        returned                                  │
//	   │                               has not returned           │                                      │
//	   └──────────────────────────────────────────────────────────┼──────────────────────────────────────┘
//	                                                              │ not within StopTimeout
//	                                                              ▼
//	                                                         ErrOverrun: exit the process
//
// So work that stops slowly never runs into the next term of its own process. Into that of another it runs only if the
// term was lost and the work goes on after its context is done. The time that it has for stopping is T/4 when the leader
// was cut off, and T/8 when the servers were cut off from each other, T being the session timeout and at least four
// ticks. Work that needs longer needs a longer T, or a resource that checks the token.
//
// # What each failure does
//
// That is the table of package recipes, where a holder is the leader and a waiter another candidate. What is particular
// here:
//
//   - A term that was lost ends with the context of its work, whose cause says why. Run waits for the work, and campaigns
//     again after the cool-down, at the end of the line.
//   - Campaign returns an error only if ctx has ended, the client was closed, or a server refuses. It waits for an
//     ensemble that is away, and so does Run.
//   - Run whose ctx has ended returns nil if everything was released, and recipes.ErrUncertain if a node may remain until
//     its session ends. It returns within StopTimeout and ResignTimeout also while ZooKeeper is away: see [Election.Run]
//     for what fits into the 30 s that Kubernetes gives a process.
//   - A work that returns an error while its term lasts ends Run with that error, unless Options.Retry has it retried.
//     fencing.ErrStale is one if the term was not lost: then the resource has admitted a token of another history of the
//     ensemble, or of another path.
//   - A work that has not returned within StopTimeout ends Run with ErrOverrun. Its node stays until it has returned, so
//     that nobody else leads meanwhile, unless the session ends first: exit the process.
//   - Observe goes on over lost connections and sessions. It yields nothing while nobody leads, and skips to the newest
//     leader for a reader that is slow.
//
// # What it costs
//
// A candidate costs what a contender does, and a hand-over one delete and one listing by the next in line. Candidates
// and leaders have heartbeats, six quorum writes in each session timeout and client: with 10, 1 000 and 100 000 clients
// at a timeout of 10 s that is 6, 600 and 60 000 a second, the last of which is more than an ensemble carries. A few
// candidates are enough; let the others observe, which costs one watch for each client and no heartbeat. Package recipes
// says more.
//
// # Where to look next
//
// [Election.Run] for a process that works while it leads, [Election.Campaign] for one that decides for itself when to
// stop; examples/drain for a worker that finishes its item on SIGTERM and aborts it when its term is lost; package fencing
// for the token; package recipes for the client, the failures and the costs; package lock for a critical section.
package election
