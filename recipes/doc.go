// SPDX-License-Identifier: Apache-2.0

// Package recipes is the foundation of locks and elections on ZooKeeper: a [Client] keeps a session with an ensemble,
// and the first contender of a queue holds a [Claim].
//
// Programs call package lock or package election, and use this package to connect. T is the session timeout that the servers
// granted ([Client.SessionTimeout]); a tick is the servers' tickTime.
//
// # What it does not promise
//
//   - A process that is paused, or whose machine is suspended, can act after it lost a claim and before it can know.
//     Only a resource that checks the claim's token is safe from that: see package fencing. A context, [Claim.Err] and
//     [Claim.Check] make the window small and never close it.
//   - A holder is notified of a loss before ZooKeeper can grant the claim to another contender only on four conditions: T is at
//     least four ticks; the leader pings its followers on time; this process is scheduled; and its clock runs at the rate of the
//     leader's.
//   - If an operator or another program deletes a claim's node or writes to it, the claim ends when the client detects
//     that. By then another contender may have been granted the claim. The same goes for a session that an operator closes.
//   - Tokens rise within one history of the ensemble. After a restore from a backup or a wipe they start lower, and the same
//     tokens are granted again. A guard that is given the id of the history ([Client.History]) detects a wipe, and refuses with
//     fencing.ErrOtherHistory until an operator resets it. A restore brings the old id back: docs/versions-and-migration.md has
//     the steps.
//   - Claims of one Client share its session, and are lost together when the session is.
//
// # The states of a claim
//
//	     join            no predecessor, fresh proof                   released
//	·  ───────►  waiting  ─────────────────────────────►  held  ──────────────────►  ended, ErrReleased
//	              │   ▲                                    │
//	 session over │   │ joins again,                       │ deadline, session over, node deleted, client closed
//	 node deleted ▼   │ at the end of the queue            ▼
//	             no node                                 ended, ErrLost with its cause: Done is closed
//
// A wait that fails (its context ends, the client is closed, a server refuses) deletes its node. A claim that has ended
// stays ended.
//
// # The states of a session
//
//	               handshake                connection ended
//	connecting  ─────────────►  attached  ───────────────────►  detached
//	                               │  ▲                          │  │
//	        the server reports     │  └──────────────────────────┘  │ no server for 2 T, or the client is closed
//	        that it expired,       │         another server         │
//	        client closed, no      ▼                                ▼
//	        answers for 2 T      over  ◄─────────────────────────────
//
// When a session is over, the client opens the next one. A claim does not wait for that: its deadline runs in every
// state. The deadline is counted from the sending of the last write that a quorum answered. In steady state it is 7T/12
// after that, less a round trip. It is never more than 3T/4 after it, and it is earlier just after a silence. Pings, reads
// and Sync prove nothing, as a server that lost its leader or its followers still answers them.
//
// # What each failure does
//
//	failure                       to a holder                                   to a waiter
//	────────────────────────────  ────────────────────────────────────────────  ─────────────────────────────────────
//	connection reset, one         keeps the claim: the session moves to         keeps its position
//	server killed                 another server; a failure that is repaired
//	                              within T/4 costs no claim
//	server frozen                 the same: when a request is unanswered for    the same
//	                              5T/24, the client leaves the server, at most
//	                              once in T/2, for one that it has not tried in
//	                              T/2, or reconnects to it if it is the only
//	                              one; a dial and handshake get T/12
//	every server slow             keeps the claim and the connection, as long   keeps its position; a grant needs writes
//	                              as writes are answered within T/5 (0.20 T)    that are answered within 0.18 T
//	network partition, one-way    notified at the deadline; another contender   waits on, until its context ends; after
//	or both ways                  can hold it once the ensemble expires the     T the session is expired and it joins
//	                              session, T to T + a tick after it last heard  again, at the end
//	                              of it
//	follower partitioned from     as for a frozen server: its pings are         the same, with syncs; stale events and
//	its leader                    answered, heartbeats are not                  reads do not grant: that takes a proof
//	leader isolated and deposed   as without a quorum, for syncLimit ticks;     the same
//	                              then the new leader gives every session a
//	                              full T
//	ensemble without a quorum     notified at the deadline; the node is         keeps its position if a quorum is back
//	                              deleted within T once the ensemble is back    within 2 T; else joins again, behind its
//	                                                                            old node if that has not expired yet
//	only handshakes and pings     notified at the deadline; the session is      after 2 T without another answer the session
//	answered (a tunnel that       abandoned T later, so that its nodes go T     is abandoned, after T if its predecessor has
//	drops large packets)          after that                                    left; joins again in the next one
//	session expired (reported     ErrSessionExpired, for all claims of the      joins again in the next session, at the
//	by the server)                client; ErrDeleted if its node's deletion is  end
//	                              reported first
//	server opens another session  the same; the node lives until the timeout    the same, behind its old node if that has
//	instead (ClickHouse Keeper)   of its session                                not expired yet
//	own node deleted or written   ErrDeleted with the next heartbeat that       joins again at the end, immediately, or
//	to by an operator             checks the node: within T/6, T/3 at most for  T/24 after it joined
//	                              one younger than T/6; immediately if the
//	                              contender waited for T/24, or if the
//	                              session has more nodes than one heartbeat
//	                              checks (128, or 64 KiB of paths), as their
//	                              nodes are then watched
//	parent deleted by an          as for the own node, which is deleted with    the same, below a new parent
//	operator                      it
//	parent reaped, being empty    does not happen to it                         does not happen to it; the next join
//	                                                                            creates the parent again
//	Client.Close                  ErrClosed immediately; the nodes are deleted  returns ErrClosed
//	                              immediately if a server can be reached, else
//	                              within T. Close does not wait for the
//	                              holder's work: release first
//	process killed                its node is deleted when the session          its node stays queued as long
//	                              expires, T to T + a tick after the leader
//	                              last heard of it
//	process paused                nothing if it wakes before the deadline;      decides afresh when it wakes
//	                              otherwise notified when it is scheduled,
//	                              which can be after another contender holds
//	                              the claim
//	machine suspended             the same. Timers stand still meanwhile: the   the same
//	                              client checks the wall clock every T/24, and
//	                              Err and Check check it immediately
//	wall clock set forward        by more than is left: notified too early      waits for fresh proof when it is first
//	wall clock set back           nothing                                       nothing
//	reply to a create lost        –                                             the client finds the node by the nonce in
//	                                                                            its data and keeps it, or finds that it
//	                                                                            was never created
//	reply to a delete lost        retried; ErrUncertain if no answer arrives    the same, in the background
//	                              within the bound, and the retries continue
//	                              in the background
//	permission refused            the server's error, if that is at the         the server's error, immediately
//	                              release; if it keeps heartbeats from being
//	                              carried out, notified at the deadline
//	Options.Auth refused in a     the claim was lost with the session before    the server's error; the client opens no
//	further session                                                             further session; with SASL it retries
//	ensemble wiped or restored    notified at the deadline: servers refuse a    joins again in a new session, after 2 T;
//	                              client that has seen more than they have      tokens start lower and recur; the history
//	                                                                            id of a wiped ensemble is another
//
// A session without a holder sends no heartbeats, and syncs if it has waiters: three in T. Without these, it leaves a frozen server when a request was not answered
// for 5T/24. If the client sends no requests, it leaves when the ZooKeeper client misses the answer to its ping, within 2T/3.
//
// After a deadline the session may still be alive, and contact may return immediately. The claim's node is then kept for
// T/4, in which the work can stop, and deleted after that. A holder that releases the lost claim declares that its work
// has stopped, and the client deletes the node immediately; an abandoned session's nodes together. If Client.Close overtakes a release while no server can be
// reached, the release returns ErrUncertain: the node is deleted when the ensemble expires the session.
//
// After any of these failures, no node of this client keeps blocking the queue once the session can be reached.
// [Client.OutstandingNodes] counts those that may still exist. Where the session cannot be reached, its nodes are deleted
// when the ensemble expires it; an ensemble that was down counts T anew once it is back.
//
// # What it costs an ensemble
//
// Each session that holds writes six times in T through the quorum, however many claims it has. One that only waits writes
// nothing. docs/performance.md has the numbers for 10, 1,000 and 100,000 clients, and the requests of each recipe. Remedies, in
// this order: one Client for each process; a longer T, for which a killed holder's claim also stays taken (the servers grant 20
// ticks at most, unless maxSessionTimeout is set higher).
//
//   - An uncontended claim: one request to join, one to release, on a path that the Mutex or Election knows. Its first use
//     reads the parent, so keep it. A parent that is missing, or was reaped since, takes three requests to create, and more
//     if those above it are missing too. Heartbeats begin T/48 after the grant: six in T, or twelve for the first T/4 after
//     a silence.
//   - A contended claim: a join, a watch of the predecessor, the release, and two reads by the next contender, the only one that
//     it wakes, whatever the length of the queue. A client that knows no other contender lists the queue once. So does a
//     contender whose predecessor gives up, dies, is a reader or belongs to another library. Waiters of one client share
//     listings. A listing has about 56 bytes for the first contender of a session and 28 for each other: 140 to 280 KB with
//     5,000.
//   - A client has at most 128 requests in flight, and heartbeats in addition: however many callers it has, a heartbeat
//     waits behind 128 requests at most. Of the callers that wait, Check, Commit and releases come first, then watches,
//     reads and the deletions of waiters, then joins, to which one turn in eight goes in any case. 32 requests are
//     reserved for the first and 16 for the second, so that a hand-off does not wait for a burst of joins. What is sent
//     on [Client.Conn] is not counted.
//   - A try that fails reads the queue and the first contender, and creates nothing: of several that find the queue empty
//     one joins, and the others are refused by the parent's version. Where the parent may not be written, several can
//     create a node, and all but the first delete theirs.
//   - In this process: one connection and, in the ZooKeeper client, two buffers of 1.5 MiB for each session.
//   - 2³¹ creates below one parent, which at 1 000 a second is 25 days without a pause, as an empty container is reaped and its
//     numbers begin anew. From 2³¹ − 2²⁰ on, contenders are ordered by czxid, which takes a read for each that was not read
//     before. Contenders of other libraries in the same queue do not know that.
//
// # Nodes
//
// Contenders are ephemeral sequential children of the queue's node, named <czxid of the parent, base 36>-lock-<number>, or
// <czxid>-<nonce>-lock-<number> where the session has no other contender in that queue. No name is given twice, even when a
// parent is reaped or deleted and created again: docs/protocol.md gives the reason. The readers and writers of a read/write lock
// have -__READ__ or -__WRIT__ in place of -lock-. Contenders for permits have -w<weight> before -lock-, and those with a priority
// -p<priority>. Children named …lock-<number>, …__lock__<number>, …__READ__<number> or …__WRIT__<number> are contenders,
// whichever program created them; all others are ignored. So locks and elections on one path exclude each other, and some other
// libraries can join the queue: docs/versions-and-migration.md. Parents are created as container nodes, which the servers remove
// some time after their last child, and as persistent ones where a server has no containers. The same goes for the nodes above,
// the namespace's among them: create those that carry permissions or quotas yourself.
//
// # Where to look next
//
// Packages lock, election, group, schedule, barrier and assign; fencing for the token; epoch for state in ZooKeeper; [Options];
// [Trace] for what can be watched; docs/observability.md for metrics and alerts; docs/protocol.md for why the deadline and the
// join are right.
package recipes
