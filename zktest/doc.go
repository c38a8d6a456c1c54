// SPDX-License-Identifier: Apache-2.0

// Package zktest is a ZooKeeper inside the test: one or several servers in this
// process, in memory, that speak the real protocol on a real socket, and can be made
// to fail at a chosen moment. It needs nothing but Go, and starts in a millisecond.
//
//	func TestWorkStopsWhenTheLeaderIsExpired(t *testing.T) {
//		srv := zktest.Start(t)
//		conn, _, err := zk.Connect(srv.Servers(), 4*time.Second)
//		…
//		srv.Expire(conn.SessionID())
//	}
//
// # What it is
//
// It behaves as ZooKeeper 3.8 does: a suite of this package sends the same requests to
// it and to a real server, and compares every answer, Stat, error code and event.
// Clients that know nothing of it work with it: the Go client, Kazoo, Java's own and
// Curator.
//
//   - Sessions: created, attached again with their password, negotiated to within 2 and
//     20 ticks, kept by requests and pings, expired at tick boundaries, closed.
//   - Nodes: persistent, ephemeral, sequential, container and, if allowed, TTL nodes;
//     Stat in every field; the counter of sequential names, which sticks at its end.
//   - Transactions, with one zxid for all of their operations; failed ones have a zxid
//     too, as in ZooKeeper.
//   - Watches: one-shot, persistent and recursive; told before the reply that would
//     reveal the change; set again after a reconnection.
//   - ACLs, with the schemes world, auth, digest and ip.
//   - The four-letter words ruok, isro, srvr, stat, mntr, conf, cons, wchs, wchc, wchp,
//     dump and envi.
//   - Connections that are silent before their handshake are closed after 10 to 20 s.
//
// # What it is not
//
// It keeps nothing, and is not for production: everything is gone when it is closed,
// and anybody who reaches its socket can use it. Reconfig is refused as disabled.
// Answered as unimplemented, after which the connection ends, are SASL, and operations
// that ZooKeeper 3.8 does not have. Quotas are not enforced. There is no TLS, no
// read-only mode, no observer, no local session, no admin server and no authentication
// scheme x509.
//
// # Where it differs
//
// These differences stay. The suite tries those that can be tried, so that none is
// listed after it has gone.
//
//   - A request whose fields cannot be read ends the connection: ZooKeeper answers
//     MarshallingError.
//   - SASL is unimplemented: ZooKeeper, not set up for it, answers with an empty
//     token.
//   - A createSession among the requests is unimplemented: ZooKeeper takes it for its
//     own and is confused.
//   - A check that is not part of a transaction is answered: ZooKeeper answers only
//     the refused.
//   - Children, ephemeral nodes and identities are listed in sorted order: ZooKeeper's
//     is that of a hash table.
//   - The scheme auth in an ACL stands for the identities in the order in which they
//     were given: in ZooKeeper in that of a hash table.
//   - The nodes of a session go in sorted order: in ZooKeeper in that of a hash table.
//   - What follows a setACL is judged by the new ACL: in ZooKeeper perhaps by the old
//     one, if both came in one write.
//   - A connection whose session expires may hear of its own nodes before it ends: in
//     ZooKeeper its end usually comes first.
//   - The words mntr, srvr, stat and cons tell no latencies but zeros, mntr not under
//     all keys, and nothing of the Java machine.
//
// # Faults
//
// The connection of one client is a [Link]: silent in one direction or both, slow,
// refused, cut, or cut at the n-th frame, before it is carried out or after. A [Server]
// can be stopped, started with its data or without, made silent, slow, mute, or lag
// behind the others. Of several, a follower can be cut from its leader, and the leader
// from the others: both go on answering for a while, as real ones do. A session can be
// expired, a node deleted behind its owner's back, the counter of sequential names put
// near its end. [Ensemble.Apply] does all that by name, for plans that are written
// down.
//
// # Scripted requests
//
// A [Rule] selects requests by operation, path and client and scripts what happens to
// them: they fail with an error of ZooKeeper's, their reply is late, held or lost, or
// they wait before they are carried out. A rule also counts what it selects, in
// requests and bytes.
//
//	srv.Intercept(zktest.Rule{Op: "create", Below: "/locks", Times: 1, Fail: zktest.ErrNoAuth})
//	srv.Intercept(zktest.Rule{Op: "getData", Path: "/config", Hold: zktest.ToClient})
//
// # Time
//
// Time is the process's. In a testing/synctest bubble, with Options.InMemory and
// Dial, an hour takes a millisecond.
package zktest
