// SPDX-License-Identifier: Apache-2.0

// Package session keeps one ZooKeeper session: its connections, the requests on them, the proofs that it lives, and the
// ephemeral nodes that may exist in it. It knows nothing of queues. A caller registers each node before it is created,
// and from then on the session deletes it, unless the session ends first.
//
// Reading order, of the parts of a Session from the lowest one up: package nodes; link.go for the connections, lifetime.go for
// what ends with the session; sender.go and request.go for how a request is sent; deletion.go; heartbeat.go for the proofs that
// the session lives; session.go for all of them; owner.go for the one goroutine that decides when.
//
// Each part guards its own state. A lifetime and a heartbeatState hold their mutexes while they call a nodes.Set, and the
// set its own while it asks for the deadline. No other mutex is held while another one is taken.
package session
