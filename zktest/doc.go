// SPDX-License-Identifier: Apache-2.0

// Package zktest runs ZooKeeper inside a test: one or several servers in this process, in memory, which speak the real protocol
// on a real socket and fail when the test chooses. It needs nothing but Go, and starts in a millisecond.
//
//	func TestWorkStopsWhenTheLeaderIsExpired(t *testing.T) {
//		srv := zktest.Start(t, nil)
//		conn, _, err := zk.Connect(srv.Addrs(), 4*time.Second)
//		…
//		srv.Expire(t.Context(), conn.SessionID())
//	}
//
// # Behaviour
//
// It behaves as ZooKeeper 3.8 does: a suite of this package compares every answer, Stat, error code and event with a real
// server's. The Go client, Kazoo, the Java client and Curator work with it. It has sessions, all kinds of nodes (TTL nodes if
// enabled), transactions, one-shot, persistent and recursive watches, the four-letter words but those that change a server, and
// ACLs with the schemes world, auth, digest and ip. With Options.Users it has logins by SASL's mechanism DIGEST-MD5 and the
// scheme sasl; with Options.TLS, connections by TLS and the scheme x509. With Options.Personality it has ClickHouse Keeper's
// behaviour where that can harm a client: no client continues its session on another connection, and there are no containers.
//
// # Limits
//
// It is not for production: it stores nothing on disk, and any process that reaches its socket can use it, unless Options
// require a login or a certificate. Reconfig is refused as disabled. Operations that ZooKeeper 3.8 does not have are answered
// as unimplemented, and the connection ends. Quotas are not enforced. There is no read-only mode, no observer, no local
// session, no admin server and no Kerberos.
//
// # Differences from ZooKeeper
//
// These differences are permanent. The suite tests each one that can be tested.
//
//   - A request whose fields cannot be read ends the connection: ZooKeeper answers
//     MarshallingError.
//   - A client's createSession request is unimplemented: ZooKeeper mistakes it for one
//     of its own and mishandles it.
//   - A check outside a transaction is always answered: ZooKeeper answers only a refused
//     one.
//   - Children, ephemeral nodes and identities are listed in sorted order: ZooKeeper
//     lists them in the order of a hash table.
//   - The scheme auth in an ACL stands for the identities in the order in which they
//     were added: ZooKeeper uses the order of a hash table.
//   - The nodes of a session are deleted in sorted order: ZooKeeper uses the order of a
//     hash table.
//   - A request that follows a setACL is checked against the new ACL: ZooKeeper may check
//     it against the old one if both came in one write.
//   - A connection whose session expires may receive events for its own nodes before it
//     ends: in ZooKeeper it usually ends first.
//   - The words mntr, srvr, stat and cons report every latency as zero, mntr lacks some
//     keys, and none describes the Java virtual machine.
//   - With TTL nodes enabled, a negative TTL is refused: it ends the server process of
//     ZooKeeper 3.8.0.
//   - A transaction with a null path takes a zxid that its answer shows: in ZooKeeper only
//     later answers show it.
//   - A persistent watch without a path is refused: in ZooKeeper 3.8.0 no request is
//     answered after the end of a session that has one.
//
// # Faults
//
// Faults hit the connection of one client, a [Link], a [Server], a session or a node. [Ensemble.Apply] injects a fault by its
// name: docs/testing.md lists all.
//
// Start, Run, and the faults that take a context have the same names and meaning in package docker, which runs real servers.
//
// # Scripted requests
//
// A [Rule] selects requests by operation and path, scripts their outcome, and counts them.
//
//	srv.Intercept(zktest.Rule{Op: "create", Below: "/locks", Times: 1, Fail: zktest.ErrNoAuth})
//	srv.Intercept(zktest.Rule{Op: "getData", Path: "/config", Hold: zktest.ToClient})
//
// # Leaks
//
// [Main], called in TestMain, fails a run whose tests leave an ensemble or a client open.
// [MainWithServers] also starts a server for examples, which have no test to start it.
//
// # Time
//
// An ensemble uses the clock of the process. In a testing/synctest bubble, with
// Options.InMemory and Dial, an hour with one holder takes about half a second.
package zktest
