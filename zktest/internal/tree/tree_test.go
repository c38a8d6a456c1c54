// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The tests expect the answers that ZooKeeper 3.8.0 gave to the same requests, unless they
// say otherwise.

// A server has only a tree: it counts zxids, and its clock advances by a second with each.
type server struct {
	*tree.Tree
	zxid int64
}

const session = 7

func newServer() *server { return &server{Tree: tree.New()} }

func (a *server) do(req any, who ...tree.Identity) tree.Outcome {
	_, out := a.commit(session, req, who...)
	return out
}

func (a *server) commit(session int64, req any, who ...tree.Identity) (tree.Txn, tree.Outcome) {
	a.zxid++
	return a.Commit(a.zxid, a.zxid*1000, session, who, req)
}

// must commits requests that have to succeed.
func (a *server) must(t *testing.T, reqs ...any) {
	t.Helper()
	for _, req := range reqs {
		require.Equal(t, wire.OK, a.do(req).Err(), "%+v", req)
	}
}

func (a *server) stat(t *testing.T, path string) wire.Stat {
	t.Helper()
	stat, code := a.Exists(path)
	require.Equal(t, wire.OK, code, path)
	return stat
}

func (a *server) children(t *testing.T, path string) []string {
	t.Helper()
	names, _, code := a.Children(path, nil)
	require.Equal(t, wire.OK, code, path)
	return names
}

func create(path string, flags int32) wire.Create {
	return wire.Create{Op: wire.OpCreate, Path: path, Data: []byte("d"), ACL: wire.World, Flags: flags}
}

func createContainer(path string) wire.Create {
	return wire.Create{Op: wire.OpCreateContainer, Path: path, ACL: wire.World, Flags: wire.Container}
}

func createTTL(path string, flags int32, ttl int64) wire.Create {
	return wire.Create{Op: wire.OpCreateTTL, Path: path, ACL: wire.World, Flags: flags, TTL: ttl}
}

func remove(path string) wire.Delete { return wire.Delete{Path: path, Version: -1} }

func set(path string) wire.SetData {
	return wire.SetData{Path: path, Data: []byte("new"), Version: -1}
}

// The changes of a tree whose nodes are all open to world:anyone.
func created(path string) tree.Change {
	return tree.Change{Type: wire.EventNodeCreated, Path: path, ACL: wire.World, ParentACL: wire.World}
}

func deleted(path string) tree.Change {
	return tree.Change{Type: wire.EventNodeDeleted, Path: path, ACL: wire.World, ParentACL: wire.World}
}

func written(path string) tree.Change {
	return tree.Change{Type: wire.EventNodeDataChanged, Path: path, ACL: wire.World}
}

func multi(ops ...any) wire.Multi { return wire.Multi{Ops: ops} }

func TestFreshTreeEqualsStandaloneServers(t *testing.T) {
	type seen struct {
		path string
		stat wire.Stat
	}
	var all []seen
	a := newServer()
	a.Walk(func(path string, data []byte, stat wire.Stat) {
		require.Equal(t, []byte{}, data, "empty, not null")
		all = append(all, seen{path, stat})
	})
	require.Equal(t, []seen{
		{"/", wire.Stat{Cversion: -1, NumChildren: 1}},
		{"/zookeeper", wire.Stat{Cversion: -2, NumChildren: 2}},
		{"/zookeeper/config", wire.Stat{Aversion: -1}},
		{"/zookeeper/quota", wire.Stat{}},
	}, all)
	require.Zero(t, a.Zxid())

	acl, _, _ := a.ACL("/zookeeper/config", nil)
	require.Equal(t, []wire.ACL{{Perms: wire.PermRead, Scheme: "world", ID: "anyone"}}, acl)
	require.Equal(t, wire.NoAuth, a.do(set("/zookeeper/config")).Code)
	require.Equal(t, wire.NoAuth, a.do(create("/zookeeper/config/x", 0)).Code)
	require.Equal(t, wire.OK, a.do(create("/zookeeper/x", 0)).Code)
}

func TestEmptyPathReadsRoot(t *testing.T) {
	a := newServer()
	a.must(t, create("/a", 0), create("/a/b", 0))
	require.Equal(t, a.stat(t, "/"), a.stat(t, ""))
	require.Equal(t, []string{"a", "zookeeper"}, a.children(t, ""))

	below, code := a.CountDescendants("/", nil)
	require.Equal(t, wire.OK, code)
	require.EqualValues(t, 5, below)
	below, _ = a.CountDescendants("", nil)
	require.EqualValues(t, 6, below, "ZooKeeper counts the root itself for the empty path")
	below, _ = a.CountDescendants("/a", nil)
	require.EqualValues(t, 1, below)
	_, code = a.CountDescendants("/none", nil)
	require.Equal(t, wire.NoNode, code)
}

func TestCloneIsIndependent(t *testing.T) {
	a := newServer()
	a.must(t, create("/a", 0), create("/a/e", wire.Ephemeral), createContainer("/c"), create("/c/x", 0), remove("/c/x"))
	before := a.Clone()
	b := &server{Tree: a.Clone(), zxid: a.zxid}
	require.Equal(t, before, b.Tree)
	b.must(t, set("/a"), remove("/a/e"), remove("/c"), create("/a/e2", wire.Ephemeral), create("/z", 0),
		wire.SetACL{Path: "/a", ACL: []wire.ACL{{Perms: 1, Scheme: "world", ID: "anyone"}}, Version: -1})
	require.Equal(t, wire.OK, b.SetCounter("/z", 5))
	require.Equal(t, before, a.Tree)
	require.Equal(t, []string{"/a/e"}, a.Ephemerals(session, ""))
	require.Equal(t, []string{"/c"}, a.Deletable(0))
}

func TestCommitOfReadPanics(t *testing.T) {
	require.PanicsWithValue(t, "tree: wire.GetData is not a request that changes something", func() {
		newServer().do(wire.GetData{Path: "/"})
	})
}

func TestRequestRefusedElsewhereTakesZxid(t *testing.T) {
	a := newServer()
	out := a.do(tree.Refused{Op: wire.OpMulti, Code: wire.MarshallingError})
	require.Equal(t, tree.Outcome{Op: wire.OpMulti, Code: wire.MarshallingError}, out)
	require.EqualValues(t, 1, a.Zxid())
	require.Equal(t, tree.Outcome{Op: wire.OpCreateSession}, a.do(tree.OpenSession{Timeout: 1000}))
	require.EqualValues(t, 2, a.Zxid())
	require.Equal(t, tree.Outcome{Op: wire.OpReconfig, Code: wire.ReconfigDisabled}, a.do(wire.Reconfig{}))
	require.EqualValues(t, 3, a.Zxid())
}

func TestOnlyExistsRefusesAPathWithANUL(t *testing.T) {
	a := newServer()
	_, code := a.Exists("/a\x00")
	require.Equal(t, wire.BadArguments, code)
	_, _, code = a.Get("/a\x00", nil)
	require.Equal(t, wire.NoNode, code)
	_, code = a.Exists("/a/")
	require.Equal(t, wire.NoNode, code)
}
