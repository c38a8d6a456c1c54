// SPDX-License-Identifier: Apache-2.0

// Package tree is the nodes of one ZooKeeper server: a state machine without a clock,
// goroutines or chance. The leader's tree decides what a request comes to (Commit),
// the others' repeat it (Apply), and all come to the same nodes and the same answers,
// field by field those of ZooKeeper 3.8.0.
//
// Whether a session is alive is not its concern; quotas are not enforced. Where
// ZooKeeper answers in the order of its hash tables, names and paths are sorted.
package tree

import (
	"maps"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// An Identity is one of those that a session has: its address, {"ip", "127.0.0.1"},
// and its credentials, {"digest", "user:base64 of the SHA-1"}. What everybody may do
// needs none. One of the scheme "super" may do everything.
type Identity struct{ Scheme, ID string }

// A Tree is the nodes of one server. It is not safe for concurrent use.
type Tree struct {
	// TTL allows nodes with a time to live: ZooKeeper's extendedTypesEnabled.
	TTL bool

	zxid  int64
	nodes map[string]*node // by path
	// What nodes would have to be searched for otherwise, as sets of paths:
	ephemerals map[int64]map[string]struct{} // by session
	mortal     map[string]struct{}           // containers and TTL nodes
}

// New is the tree of a server that starts without data. As a standalone server's it
// has an empty /zookeeper/config; none of the first nodes has a zxid or a time, and
// the counters do not count them.
func New() *Tree {
	t := &Tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		mortal:     make(map[string]struct{}),
	}
	for _, path := range []string{root, "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		t.nodes[path] = &node{acl: wire.World, data: []byte{}}
	}
	t.nodes[root].addChild("zookeeper")
	t.nodes["/zookeeper"].addChild("config")
	t.nodes["/zookeeper"].addChild("quota")
	config := t.nodes["/zookeeper/config"]
	config.acl, config.aversion = []wire.ACL{{Perms: wire.PermRead, Scheme: "world", ID: "anyone"}}, -1
	return t
}

// Clone is an independent tree with the same nodes.
func (t *Tree) Clone() *Tree {
	c := *t
	c.nodes = make(map[string]*node, len(t.nodes))
	for path, n := range t.nodes {
		same := *n
		same.children = maps.Clone(n.children)
		c.nodes[path] = &same
	}
	c.ephemerals = make(map[int64]map[string]struct{}, len(t.ephemerals))
	for session, paths := range t.ephemerals {
		c.ephemerals[session] = maps.Clone(paths)
	}
	c.mortal = maps.Clone(t.mortal)
	return &c
}

// Zxid is the last transaction's.
func (t *Tree) Zxid() int64 { return t.zxid }

// Commit decides what a request comes to, and carries it out: the leader's part. The
// request is one of wire's that change something, CloseSession among them, or one of
// this package's; of a session with the identities who. It never fails: a refusal is
// a Txn too, which changes nothing. Nothing is kept of the request's data.
//
// A wire.Check by itself has an outcome here; a real server refuses it with a code or
// else never answers.
func (t *Tree) Commit(zxid, timeMS, session int64, who []Identity, req any) (Txn, Outcome) {
	d := decision{view: view{tree: t}, session: session, who: who}
	body, code := d.decide(req)
	if code != wire.OK {
		op, path := about(req)
		body = errorTxn{op: op, path: path, code: code}
	}
	txn := Txn{Zxid: zxid, Time: timeMS, Session: session, Body: body}
	return txn, t.Apply(txn)
}

// CloseSession is the Commit of a wire.CloseSession: the session's ephemeral nodes go,
// in the order of their paths.
func (t *Tree) CloseSession(zxid, timeMS, session int64) (Txn, Outcome) {
	return t.Commit(zxid, timeMS, session, nil, wire.CloseSession{})
}

// PlantCounter sets the number that the node's next sequential child gets. It is no
// transaction: each server's tree wants it.
func (t *Tree) PlantCounter(path string, next int32) wire.Code {
	n := t.node(path)
	if n == nil {
		return wire.NoNode
	}
	n.counter = next
	return wire.OK
}

func (t *Tree) node(path string) *node { return t.nodes[key(path)] }
