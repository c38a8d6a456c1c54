// SPDX-License-Identifier: Apache-2.0

// Package session keeps one ZooKeeper session: its connections, the requests on them, the proofs that it lives, and the
// ephemeral nodes that may exist in it. It knows nothing of queues. A caller registers each node before it is created,
// and from then on the session deletes it, unless the session ends first.
//
// Reading order: session.go for how a session begins and ends, attach.go for its connections; request.go for how a request
// is sent; package nodes for the nodes that may exist; heartbeat.go for the proofs that the session lives; deletion.go for the
// deletion of nodes; owner.go for the one goroutine that decides when.
//
// Locks, in the order in which they may be taken: Session.mu; heartbeatState.mu; nodes.Set; then the locks of package deadline, of a
// Wire, of the watches, of the dialer and of an Alarm, none of which is held while another is taken.
package session
