// SPDX-License-Identifier: Apache-2.0

// Package tree is the nodes of one ZooKeeper server: a state machine without a clock,
// goroutines or chance. The leader's tree decides what a request comes to (Commit),
// the others' repeat it (Apply), and all come to the same nodes and the same answers,
// field by field those of ZooKeeper 3.8.0.
//
// What it leaves out: quotas are not enforced, and whether a session is alive is not
// its concern.
package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// An Identity is one of those that a session has: {"world", "anyone"} need not be
// named, {"ip", address} and those of its credentials are the caller's to name. One
// of the scheme "super" may do everything.
type Identity struct{ Scheme, ID string }

// A Tree is the nodes of one server. It is not safe for concurrent use.
type Tree struct {
	// TTL allows nodes with a time to live: ZooKeeper's extendedTypesEnabled. It must
	// be set before the first use, and alike on all servers.
	TTL bool

	zxid int64
}

// New is the tree of a server that starts without data.
func New() *Tree { return &Tree{} }

// Clone is an independent tree with the same nodes.
func (t *Tree) Clone() *Tree { c := *t; return &c }

// Zxid is the last transaction's.
func (t *Tree) Zxid() int64 { return t.zxid }

// Commit decides what a request comes to, and carries it out: the leader's part. The
// request is one of wire's that change something, or one of this package's. It keeps
// nothing of req's memory.
func (t *Tree) Commit(zxid, timeMS, session int64, who []Identity, req any) (Txn, Outcome) {
	return Txn{}, Outcome{}
}

// Apply carries out what another tree's Commit decided, with the same outcome.
func (t *Tree) Apply(txn Txn) Outcome { return Outcome{} }

// CloseSession deletes the session's ephemeral nodes, in the order of their paths.
func (t *Tree) CloseSession(zxid, timeMS, session int64) (Txn, Outcome) { return Txn{}, Outcome{} }

// Get reads a node's data, which must not be changed.
func (t *Tree) Get(path string, who []Identity) ([]byte, wire.Stat, wire.Code) {
	return nil, wire.Stat{}, wire.NoNode
}

// Exists reads a node's Stat, for which no permission is needed.
func (t *Tree) Exists(path string) (wire.Stat, wire.Code) { return wire.Stat{}, wire.NoNode }

// Children lists a node's children, sorted.
func (t *Tree) Children(path string, who []Identity) ([]string, wire.Stat, wire.Code) {
	return nil, wire.Stat{}, wire.NoNode
}

// ACL reads a node's ACL, without the digests for those who may not change it.
func (t *Tree) ACL(path string, who []Identity) ([]wire.ACL, wire.Stat, wire.Code) {
	return nil, wire.Stat{}, wire.NoNode
}

// Ephemerals lists the session's nodes whose paths begin with prefix, sorted.
func (t *Tree) Ephemerals(session int64, prefix string) []string { return nil }

// CountDescendants counts the nodes below a node.
func (t *Tree) CountDescendants(path string, who []Identity) (int32, wire.Code) {
	return 0, wire.NoNode
}

// Reapable lists, sorted, the containers that have no child any more and the TTL
// nodes without children that nobody wrote to for their time.
func (t *Tree) Reapable(nowMS int64) []string { return nil }

// PlantCounter sets the number that the next sequential child gets. It is no
// transaction: every server's tree needs it.
func (t *Tree) PlantCounter(path string, next int32) wire.Code { return wire.NoNode }

// Walk calls f for each node, parents first and siblings sorted.
func (t *Tree) Walk(f func(path string, data []byte, stat wire.Stat)) {}
