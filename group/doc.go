// SPDX-License-Identifier: Apache-2.0

// Package group keeps track of the live processes of a service: each registers as a member, with metadata, and all can
// list the members and follow their changes.
//
//	brokers, err := group.New(client, "/brokers", nil)
//	…
//	member, err := brokers.Join(ctx, "broker-7", []byte(`{"addr":"10.0.0.7:9092"}`))
//	…
//	defer member.Leave(ctx)
//	for change, err := range brokers.Observe(ctx) {
//		… change.Joined, change.Left, change.Updated, or change.Members as a whole
//	}
//
// T is the session timeout that the servers granted; a tick is the servers' tickTime.
//
// # What it promises
//
//   - At most one session has a member of an id, in ZooKeeper's commit order. A process that joins with an id that is
//     taken waits, and so does a member that lost its session while another process took its id.
//   - A member stays registered until [Membership.Leave], across sessions: when a session ends, it is registered again
//     in the next one.
//   - No node of another session is deleted, not even of the client's own former one. Join and the next registration wait
//     until the ensemble has deleted it.
//   - A [Snapshot] names each member once, and exactly those that existed at its Revision. Changes come in ZooKeeper's
//     order, and the last one shows the members as they are, however many were skipped.
//   - A member that states that it is registered has its node, as long as its server has contact with the leader and its process
//     is scheduled, until T/4 after the last server was lost: see [Membership.State].
//
// # What it does not promise
//
// Membership is advisory. A member in a snapshot may have died, or been partitioned from the servers, T and a tick ago;
// one that is missing may be alive and unable to reach a server. No registration carries a token, so two processes that work
// under one id exclude each other in the list and nowhere else: see packages lock, election and fencing.
//
// An operator who deletes the node of a live member lets another process take its id. If that happens before the
// member's client is notified, a Leave or an Update of the member can hit the node of that process, which restores it.
//
// # The states of a member
//
//	     Join          the id is free               session over, node deleted
//	·  ────────►  waiting  ─────────►  registered  ───────────────────────────►  registering again
//	                 │                     │  ▲                                       │
//	    ctx ended    │                     │  └───────────────────────────────────────┘
//	                 ▼                     ▼                 the id is free
//	              no member              ended: ErrReleased (Leave), ErrClosed, or the refusal of a server
//
// # What each failure does
//
//	failure                      to a member                                 to those who list or follow
//	───────────────────────────  ──────────────────────────────────────────  ──────────────────────────────────────
//	connection reset, one        stays registered: the session moves to      continues on another server
//	server killed                another server
//	no server for T/4            states that it is not registered; it is     shows nothing new
//	                             again when a server serves the session
//	session expired              registers again in the next session, when   shows it as left, and as joined again
//	                             its id is free
//	process killed               its node is deleted T to T + a tick later   shows it until then
//	process paused               the same, if that is longer than T; it      the same
//	                             registers again when it wakes
//	all servers down             registers again, unless its session         shows nothing new; sessions count T anew
//	                             outlived the outage                         when the servers are back
//	reply to a create, an        the client reads the node, which shows by   –
//	update or a deletion lost    its session whose it is, before it repeats
//	node deleted or overwritten  restores it, at most once in T/48           shows both
//	by an operator
//	permission refused           ended, with the server's error              ended, with the server's error
//
// # What it costs
//
// A member costs a write and a read when it registers and for each update, a write to leave, and no heartbeats. So its loss is
// detected later than a lock's, by the end of the session.
//
// A client that follows a group lists the members after a change, at most every T/48, and reads those that are new or were
// updated. 1,000 processes that all follow 1,000 members, with ids of 24 bytes, receive 28 MB for one that joins. Let few follow.
//
// # Nodes
//
// A member is the ephemeral node <path>/<id>, and its data is the metadata, unchanged, so that programs in any language
// can read it. Children of the group's node that are not ephemeral are ignored.
package group
