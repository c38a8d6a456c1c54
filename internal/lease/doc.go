// SPDX-License-Identifier: Apache-2.0

// Package lease carries out leases: contenders that hold no ZooKeeper session. Replicas of
// a stateless lock service call it for HTTP clients. Leases, locks, elections and contenders
// of other libraries share one queue.
//
// A lease is a persistent node with a record that has a TTL. Its holder writes the record
// again to renew it; an observer that has seen one version for TTL × 33/32 deletes the
// node. So leases survive the death of a replica, and end without their holder.
//
// Exclusion follows from the order of the nodes and depends on no clock. A holder must have
// stopped when Grant.Valid has passed since it *sent* the request that was answered, by a
// monotonic clock: docs/protocol.md states the conditions under which that is before the
// next grant.
package lease
