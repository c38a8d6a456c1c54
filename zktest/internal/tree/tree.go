// SPDX-License-Identifier: Apache-2.0

// Package tree implements the nodes of one ZooKeeper server: a deterministic state machine
// without a clock or goroutines. The leader's tree decides each request (Commit), the other
// servers' trees repeat the decision (Apply), and all reach the same nodes and the same
// answers, field by field as ZooKeeper 3.8.0 does.
//
// The package does not track whether a session is alive, and does not enforce quotas.
// Where ZooKeeper answers in the order of its hash tables, names and paths are sorted.
package tree

import (
	"maps"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A Tree holds the nodes of one server. It is not safe for concurrent use.
type Tree struct {
	// TTL enables nodes with a time to live: ZooKeeper's extendedTypesEnabled.
	TTL bool
	// SASL allows the scheme sasl in ACLs, as a server does with its SASLAuthenticationProvider.
	SASL bool
	// X509 allows the scheme x509 in ACLs, as a server does that has a port for TLS.
	X509 bool

	zxid  int64
	nodes map[string]*node // by path
	// Indexes, as sets of paths, that avoid a search of all nodes:
	ephemerals map[int64]map[string]struct{} // by session
	deletable  map[string]struct{}           // containers and TTL nodes
}

// New returns the tree of a server that starts without data. Like a standalone server's
// it has an empty /zookeeper/config; none of the initial nodes has a zxid or a time, and
// the counters do not count them.
func New() *Tree {
	t := &Tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		deletable:  make(map[string]struct{}),
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

// Clone returns an independent tree with the same nodes.
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
	c.deletable = maps.Clone(t.deletable)
	return &c
}

// Zxid returns the zxid of the last transaction.
func (t *Tree) Zxid() int64 { return t.zxid }

// Commit decides a request as the leader, and applies the decision. The request is one of
// wire's that change something, CloseSession included, or one of this package's; it comes
// from a session with the identities ids. Commit never fails: a refusal is a Txn too, which
// changes nothing. It panics on a request that changes nothing, such as wire.GetData. It
// does not retain the request's data.
//
// A wire.Check outside a multi always has an outcome here; a real server refuses it with
// a code, or never answers.
func (t *Tree) Commit(zxid, timeMS, session int64, ids []Identity, req any) (Txn, Outcome) {
	d := decision{view: view{tree: t}, session: session, identities: ids}
	body, code := d.decide(req)
	if code != wire.OK {
		op, path := objectOf(req)
		body = errorTxn{op: op, path: path, code: code}
	}
	txn := Txn{Zxid: zxid, Time: timeMS, Session: session, Body: body}
	return txn, t.Apply(txn)
}

// CloseSession is the Commit of a wire.CloseSession: it deletes the session's ephemeral
// nodes, in the order of their paths.
func (t *Tree) CloseSession(zxid, timeMS, session int64) (Txn, Outcome) {
	return t.Commit(zxid, timeMS, session, nil, wire.CloseSession{})
}

// SetCounter sets the number of the node's next sequential child. It is no transaction:
// call it on each server's tree.
func (t *Tree) SetCounter(path string, next int32) wire.Code {
	n := t.node(path)
	if n == nil {
		return wire.NoNode
	}
	n.counter = next
	return wire.OK
}

func (t *Tree) node(path string) *node { return t.nodes[key(path)] }
