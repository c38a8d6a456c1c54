// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestDeleteIsCheckedInZooKeepersOrder(t *testing.T) {
	a := newServer()
	locked := []wire.ACL{{Perms: wire.PermAll &^ wire.PermDelete, Scheme: "world", ID: "anyone"}}
	a.must(t, create("/d", 0), create("/d/c", 0), wire.Create{Op: wire.OpCreate, Path: "/locked", ACL: locked}, create("/locked/c", 0))
	for _, step := range []struct {
		path    string
		version int32
		want    wire.Code
	}{
		{"", -1, wire.BadArguments},
		{"d", -1, wire.BadArguments},
		{"/", -1, wire.BadArguments},
		{"/zookeeper", -1, wire.BadArguments},
		{"/zookeeper/quota", -1, wire.BadArguments},
		{"/zookeeper/config", -1, wire.BadArguments},
		{"/d\x00", -1, wire.BadArguments},
		{"/d/", -1, wire.NoNode},
		{"//", -1, wire.NoNode},
		{"/\xff", -1, wire.NoNode},
		{"/none", -1, wire.NoNode},
		{"/none/x", -1, wire.NoNode},
		{"/locked/none", -1, wire.NoAuth},
		{"/locked/c", 5, wire.NoAuth},
		{"/d", 5, wire.BadVersion},
		{"/d", -2, wire.BadVersion},
		{"/d", 0, wire.NotEmpty},
	} {
		out := a.do(wire.Delete{Path: step.path, Version: step.version})
		require.Equal(t, tree.Outcome{Op: wire.OpDelete, Path: step.path, Code: step.want}, out, "%+v", step)
	}
	require.Equal(t, tree.Outcome{
		Op: wire.OpDelete, Path: "/d/c", Changes: []tree.Change{deleted("/d/c")},
	}, a.do(wire.Delete{Path: "/d/c", Version: 0}))
	a.must(t, wire.Delete{Path: "/d", Version: 0})
	require.Equal(t, []string{"locked", "zookeeper"}, a.children(t, "/"))
}

func TestSetAndCheckAreCheckedInZooKeepersOrder(t *testing.T) {
	a := newServer()
	locked := []wire.ACL{{Perms: wire.PermCreate, Scheme: "world", ID: "anyone"}}
	a.must(t, create("/n", 0), wire.Create{Op: wire.OpCreate, Path: "/locked", ACL: locked})
	for _, step := range []struct {
		path                string
		version             int32
		acl                 []wire.ACL
		data, access, check wire.Code
	}{
		{"", -1, nil, wire.BadArguments, wire.BadArguments, wire.BadArguments},
		{"/n/", -1, nil, wire.BadArguments, wire.BadArguments, wire.BadArguments},
		{"/\xff", -1, nil, wire.BadArguments, wire.BadArguments, wire.BadArguments},
		{"/none", 9, nil, wire.NoNode, wire.InvalidACL, wire.NoNode},
		{"/none", 9, wire.World, wire.NoNode, wire.NoNode, wire.NoNode},
		{"/locked", 9, nil, wire.NoAuth, wire.InvalidACL, wire.NoAuth},
		{"/locked", 9, wire.World, wire.NoAuth, wire.NoAuth, wire.NoAuth},
		{"/n", 9, wire.World, wire.BadVersion, wire.BadVersion, wire.BadVersion},
		{"/n", -2, wire.World, wire.BadVersion, wire.BadVersion, wire.BadVersion},
	} {
		for req, want := range map[any]wire.Code{
			wire.OpSetData: step.data, wire.OpSetACL: step.access, wire.OpCheck: step.check,
		} {
			op := req.(wire.Op)
			var out tree.Outcome
			switch op {
			case wire.OpSetData:
				out = a.do(wire.SetData{Path: step.path, Version: step.version})
			case wire.OpSetACL:
				out = a.do(wire.SetACL{Path: step.path, ACL: step.acl, Version: step.version})
			default:
				out = a.do(wire.Check{Path: step.path, Version: step.version})
			}
			require.Equal(t, tree.Outcome{Op: op, Path: step.path, Code: want}, out, "%+v", step)
		}
	}
}

func TestStatsChangeAsInZooKeeper(t *testing.T) {
	a := newServer()
	a.must(t, create("/n", 0), create("/n/c", 0))
	n := wire.Stat{Czxid: 1, Mzxid: 1, Ctime: 1000, Mtime: 1000, Pzxid: 2, Cversion: 1, NumChildren: 1, DataLength: 1}
	require.Equal(t, n, a.stat(t, "/n"), "a created child changes cversion and pzxid")

	out := a.do(set("/n"))
	n.Version, n.Mzxid, n.Mtime, n.DataLength = 1, 3, 3000, 3
	require.Equal(t, tree.Outcome{
		Op: wire.OpSetData, Path: "/n", Stat: n, Changes: []tree.Change{written("/n")},
	}, out)

	out = a.do(wire.SetACL{Path: "/n", ACL: wire.World, Version: 0})
	n.Aversion = 1
	require.Equal(t, tree.Outcome{Op: wire.OpSetACL, Path: "/n", Stat: n}, out, "no watch covers an ACL")

	require.Equal(t, tree.Outcome{Op: wire.OpCheck, Path: "/n"}, a.do(wire.Check{Path: "/n", Version: 1}))
	require.Equal(t, n, a.stat(t, "/n"))

	a.must(t, set("/n/c"))
	require.Equal(t, n, a.stat(t, "/n"), "a child's data does not affect the parent")

	a.must(t, remove("/n/c"))
	n.Cversion, n.Pzxid, n.NumChildren = 2, 7, 0
	require.Equal(t, n, a.stat(t, "/n"), "a deleted child changes them too")

	a.must(t, create("/n/c", 0))
	n.Cversion, n.Pzxid, n.NumChildren = 3, 8, 1
	require.Equal(t, n, a.stat(t, "/n"))
	require.Equal(t, wire.Stat{Cversion: 0, NumChildren: 2, Pzxid: 1}, a.stat(t, "/"), "the root began at -1")
}

func TestRefusalsTakeZxidAndChangeNothing(t *testing.T) {
	a := newServer()
	a.must(t, create("/n", 0))
	for i, req := range []any{
		create("/n", 0), remove("/none"),
		wire.Delete{Path: "/n", Version: 3},
		wire.SetData{Path: "/n", Version: 3},
		wire.SetACL{Path: "/n", Version: -1},
		wire.Check{Path: "/n", Version: 3},
		multi(set("/n"), remove("/none")),
		tree.DeleteContainer{Path: "/none"},
		tree.Refused{Op: wire.OpDelete, Code: wire.MarshallingError},
	} {
		before := a.Nodes()
		require.NotEqual(t, wire.OK, a.do(req).Err())
		require.Equal(t, before, a.Nodes())
		require.EqualValues(t, i+2, a.Zxid())
	}
}

func TestVersionsWrapAround(t *testing.T) {
	a := newServer()
	a.must(t, create("/n", 0))
	a.SetVersions("/n", math.MaxInt32, math.MaxInt32)
	stat := a.do(set("/n")).Stat
	require.EqualValues(t, math.MinInt32, stat.Version)
	stat = a.do(wire.SetACL{Path: "/n", ACL: wire.World, Version: math.MaxInt32}).Stat
	require.EqualValues(t, math.MinInt32, stat.Aversion)
	require.Equal(t, wire.OK, a.do(wire.SetData{Path: "/n", Version: math.MinInt32}).Code)

	// The version -1, when it is reached, cannot be requested: it stands for any.
	a.SetVersions("/n", -2, 0)
	require.EqualValues(t, -1, a.do(set("/n")).Stat.Version)
	require.EqualValues(t, 0, a.do(wire.SetData{Path: "/n", Version: -1}).Stat.Version)
	require.Equal(t, wire.OK, a.do(wire.SetData{Path: "/n", Version: -1}).Code)
}
