// SPDX-License-Identifier: Apache-2.0

// Package recipes is what locks and elections on ZooKeeper are made of: a [Client], which keeps a session with an
// ensemble, and a [Line], in which contenders queue until the first of them has the [Claim].
//
// Programs use package lock or package election, and this package to connect. What it says here holds for both. T is the
// session timeout that the servers granted ([Client.SessionTimeout]), a tick is the servers' tickTime.
//
// # What it does not promise
//
//   - A process that is paused, or whose machine is suspended, can act after it lost a claim and before it can know.
//     Only a resource that checks the claim's token is safe from that: see package fencing. A context, [Claim.Err] and
//     [Claim.Check] make the window small and never close it.
//   - That the holder is told before anybody else can hold the claim is promised on four conditions: T is at least four
//     ticks; the leader pings its followers on time; this process is scheduled; and its clock runs at the rate of the
//     leader's. Where one fails, the token is what is left.
//   - A node that somebody deletes or writes to by hand ends its claim when that is seen, which is after others may have
//     been granted it. The same goes for a session that an operator closes.
//   - Tokens rise within one history of the ensemble. After a restore from a backup or a wipe they start lower, and the
//     same tokens are granted again. A gate refuses those below its high-water mark and admits an equal one. A guard that
//     is given the id of the history ([Client.History]) detects a wipe, and refuses with fencing.ErrOtherHistory until an
//     operator resets it. A restore brings the old id back: delete the node lockkeeper-history, at the root of each
//     namespace, as a step of the restore.
//   - Claims of one Client share its session, and are lost together when it is.
//
// # The states of a claim
//
//	     join               nobody ahead, fresh proof                  released
//	·  ───────►  waiting  ─────────────────────────────►  held  ──────────────────►  ended, ErrReleased
//	              │   ▲                                    │
//	 session over │   │ joins again,                       │ deadline, session over, node deleted, client closed
//	 node deleted ▼   │ at the end of the line             ▼
//	             no node                                 ended, ErrLost with its cause: Done is closed
//
// A wait that fails (its context ends, the client is closed, a server refuses) takes its node away. A claim that has
// ended stays ended.
//
// # The states of a session
//
//	               handshake                connection ended
//	connecting  ─────────────►  attached  ───────────────────►  detached
//	                               │  ▲                          │  │
//	            the server says    │  └──────────────────────────┘  │ no server for 2 T, or the client is closed
//	            that it expired,   │         another server         │
//	            client closed      ▼                                ▼
//	                             over  ◄─────────────────────────────
//
// When a session is over, the client opens the next one. A claim does not wait for that: its deadline runs in every
// state. It is counted from the sending of the last write that a quorum answered: 7T/12 after it, less a round trip, in
// steady state, at most 3T/4, and sooner on the heels of a silence. Pings, reads and Sync prove nothing, as a server that
// lost its leader or its followers goes on answering them.
//
// # What each failure does
//
//	failure                       to a holder                                   to a waiter
//	────────────────────────────  ────────────────────────────────────────────  ─────────────────────────────────────
//	connection reset, one         keeps the claim: the session goes to another  keeps its place
//	server killed                 server; what mends within T/4 is ridden out
//	server frozen                 the same: a request unanswered for T/8 has    the same
//	                              the server left, at most once in T/2 and for
//	                              one that was not tried in T/2, or for itself if
//	                              it is the only one; a dial and
//	                              handshake get T/12
//	every server slow: writes     keeps the claim, as long as a write is        the same
//	take T/8 and more             answered within about T/4
//	cut off, both ways or one     told at the deadline; others can hold it      waits on, until its context ends; over
//	                              once the ensemble expires the session, T      T away, the session is expired and it
//	                              to T + a tick after it last heard of it       joins again, at the end
//	follower cut from its leader  as a frozen server: its pings are answered,   woken by stale news it is not granted
//	                              heartbeats are not                            anything: that takes a quorum's answer
//	leader cut off and deposed    the same; the new leader gives every session  the same
//	                              a full T
//	ensemble without a quorum     told at the deadline; the node goes when      keeps its place if a quorum is back
//	                              the ensemble is back, within T                within 2 T; else joins again, behind its
//	                                                                            old node if that has not expired yet
//	session expired, as a server  ErrSessionExpired, for all claims of the      joins again in the next session, at the
//	says                          client                                        end
//	own node deleted or written   ErrDeleted with the next heartbeat that       joins again at the end, immediately
//	to by an operator             checks the node: within T/6, T/3 at most for
//	                              one younger than T/6; immediately if it was
//	                              waited with, or if the session has more nodes
//	                              than one heartbeat checks (128, or 64 KiB of
//	                              paths), as their nodes are then watched
//	parent deleted by hand        as the own node, which went with it           the same, below a new parent
//	parent reaped, being empty    does not happen to it                         does not happen to it; the next join
//	                                                                            makes the parent again
//	Client.Close                  ErrClosed at once, the nodes go at once if a  returns ErrClosed
//	                              server can be reached, else within T. Close
//	                              waits for no work: release first
//	process killed                its node goes when the session expires, T to  its node stands in line as long
//	                              T + a tick after the leader last heard of it
//	process paused                if it wakes before the deadline, nothing;     decides afresh when it wakes
//	                              after it, told when it is scheduled, which
//	                              can be after others hold the claim
//	machine suspended             the same. Timers stood still meanwhile: the   the same
//	                              wall clock is looked at every T/24, and by
//	                              Err and Check at once
//	wall clock set forward        by more than is left: told too early          waits for fresh proof when it is first
//	wall clock set back           nothing                                       nothing
//	reply to a create lost        –                                             the node is found by the nonce in its
//	                                                                            data and kept, or was never made
//	reply to a delete lost        asked again; ErrUncertain if no answer comes  the same, in the background
//	                              within the bound, and it goes on in the
//	                              background
//	permission refused            the server's error, if that is at the         the server's error, at once
//	                              release; if it keeps heartbeats from being
//	                              carried out, told at the deadline
//	credentials refused in a      the claim was lost with the session before    the server's error; the client opens no
//	further session                                                             further session
//	ensemble wiped or restored    told at the deadline: servers refuse a        joins again in a new session, after 2 T;
//	                              client that has seen more than they have      tokens start lower and recur; the history
//	                                                                            id of a wiped ensemble is another
//
// A session with neither holder nor waiter has no heartbeats. It leaves a frozen server when a request was not answered
// for T/8, and where nothing is asked, when the ZooKeeper client misses the answer to its ping, within 2T/3.
//
// After a deadline the session may well live, and contact be back at once. The claim's node is then kept for T/4, in which
// the work can stop, and deleted after that. A holder that releases the lost claim says that its work has stopped, and has
// the node deleted at once. A release that Client.Close overtakes while no server can be
// reached is an ErrUncertain: the node goes when the ensemble expires the session.
//
// After any of these no node of ours stays in anybody's way once the session can be reached. [Client.Ledger] counts
// those that may still exist. Where the session cannot be reached, they go when the ensemble expires it; an ensemble that
// was down counts T anew once it is back.
//
// # What it costs an ensemble
//
// Each session that holds or waits writes six times in T through the quorum, however many claims it has; one that does
// neither writes nothing. The ZooKeeper client pings three times in T, which the connected server answers alone.
//
//	sessions that hold or wait    quorum writes a second, T = 10 s    T = 40 s
//	10                            6                                   1.5
//	1 000                         600                                 150
//	100 000                       60 000                              15 000
//
// For scale: one server on two cores, with the load generator beside it and no quorum to ask, carried out about 16 000
// writes a second. So 100 000 sessions at T = 10 s are beyond what an ensemble carries. Then, in this order: one Client
// per process, as it serves any number of lines with one heartbeat; let fewer processes wait, by trying instead of
// waiting or by observing, which needs no heartbeat; a longer T, which is the time that a killed holder's claim stays
// taken (the servers grant 20 ticks at most, unless maxSessionTimeout says more).
//
//   - A claim that nobody contends for: one request to join, one to release, on a path that the Line knows. The first
//     use of a Line reads the parent, so keep Lines, and what is built on them. A parent that is missing, or was reaped
//     since, takes three requests to make, and more if those above it are missing too. Heartbeats
//     begin with the first join, at once: one more write for a short cycle, and never more than six in T.
//   - Where the parent has data of somebody else, or may not be written: a create, a read and a listing to join.
//   - Where others are in line: a join watches the node with the number before its own, and its own, which the next
//     contender of the same client shares. It lists the queue only if no node of this library has that number. A release
//     costs the delete and one listing by the next in line, whom alone it wakes. Waiters of one client that need a listing
//     at the same time share it. A listing has about 56 bytes for the first contender of a session and 28 for each other:
//     140 to 280 KB with 5 000.
//   - A client has 128 requests on their way at most, and heartbeats beside them: however many callers it has, a heartbeat
//     stands behind 128 requests. 32 of them are kept for Check, Commit and releases, which do not wait for a burst of
//     joins. What [Client.Conn] sends is not counted.
//   - A try that fails reads the queue and the first contender, and creates nothing: of several that find the queue empty
//     one joins, and the others are refused by the parent's version. Where the parent may not be written, several can
//     create a node, and all but the first delete theirs.
//   - In this process: one connection and, in the ZooKeeper client, two buffers of 1.5 MiB for each session.
//   - 2³¹ joins below one parent, which at 1 000 a second is 25 days without a pause, as an empty container is reaped and
//     its numbers begin anew. ZooKeeper's counter does not wrap then but sticks, and sequence numbers say nothing any
//     more. From 2³¹ − 2²⁰ on, contenders are ordered by czxid, which takes a read for each that was not read before,
//     and every name has a nonce. Contenders of other libraries in the same line do not know that.
//
// # Nodes
//
// Contenders are ephemeral sequential children of the line's node, named <czxid of the parent, base 36>-lock-<number>, or
// <czxid>-<nonce>-lock-<number> where the session has no other contender in that line. No name is given twice, also when
// a parent is reaped or deleted and made again: docs/protocol.md says why. Children named …lock-<number> or
// …__lock__<number> are contenders, whoever made them; all others are ignored. So a lock and an election on the same path
// exclude each other, and contenders of some other libraries can stand in the same line: docs/versions-and-migration.md
// says which. Parents are made as container nodes, which the servers remove some time after their last child, and as
// persistent ones where a server has no containers. The same goes for the nodes above, the namespace's among them: make
// those that carry permissions or quotas yourself.
//
// # Where to look next
//
// Package lock and package election for what to call; package fencing for the token; package epoch for state in ZooKeeper;
// [Options] for what can be set; [Trace] for what can be watched; docs/protocol.md for why the deadline and the join are
// right; then internal/lease/deadline.go, contend.go, join.go, wait.go and internal/session.
package recipes
