// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestEachResultShowsStateAfterItsOperation(t *testing.T) {
	a := newServer()
	a.must(t, create("/m", 0)) // zxid 1, time 1000
	out := a.do(multi(
		create("/m/a", 0),
		wire.SetData{Path: "/m/a", Data: []byte("y"), Version: 0},
		create("/m/s", wire.PersistentSequential),
		wire.SetData{Path: "/m", Data: []byte("y"), Version: 0},
		create("/m/s", wire.EphemeralSequential),
		wire.Delete{Path: "/m/a", Version: 1},
		wire.Check{Path: "/m", Version: 1},
	))
	fresh := wire.Stat{Czxid: 2, Mzxid: 2, Pzxid: 2, Ctime: 2000, Mtime: 2000, DataLength: 1}
	set, mine := fresh, fresh
	set.Version = 1
	mine.EphemeralOwner = session
	parent := wire.Stat{
		Czxid: 1, Ctime: 1000, Mzxid: 2, Pzxid: 2, Mtime: 2000, Version: 1, Cversion: 2, DataLength: 1, NumChildren: 2,
	}
	one := func(c tree.Change) []tree.Change { return []tree.Change{c} }
	want := []tree.Outcome{
		{Op: wire.OpCreate, Path: "/m/a", Stat: fresh, Changes: one(created("/m/a"))},
		{Op: wire.OpSetData, Path: "/m/a", Stat: set, Changes: one(written("/m/a"))},
		{Op: wire.OpCreate, Path: "/m/s0000000001", Stat: fresh, Changes: one(created("/m/s0000000001"))},
		{Op: wire.OpSetData, Path: "/m", Stat: parent, Changes: one(written("/m"))},
		{Op: wire.OpCreate, Path: "/m/s0000000002", Stat: mine, Changes: one(created("/m/s0000000002"))},
		{Op: wire.OpDelete, Path: "/m/a", Changes: one(deleted("/m/a"))},
		{Op: wire.OpCheck, Path: "/m"},
	}
	require.Equal(t, want, out.Results)
	var changes []tree.Change
	for _, r := range want {
		changes = append(changes, r.Changes...)
	}
	require.Equal(t, tree.Outcome{Op: wire.OpMulti, Results: want, Changes: changes}, out)
	require.EqualValues(t, 2, a.Zxid(), "one zxid for all operations")

	parent.Cversion, parent.NumChildren = 4, 2
	require.Equal(t, parent, a.stat(t, "/m"))
	require.Equal(t, []string{"s0000000001", "s0000000002"}, a.children(t, "/m"))
}

func TestFailedTransactionLeavesNoTrace(t *testing.T) {
	good := []any{
		create("/m/x", 0), create("/m/x/y", wire.Ephemeral), create("/m/s", wire.PersistentSequential),
		createContainer("/m/c"), set("/m"), set("/"), remove("/m/old"), remove("/m/mine"),
		wire.Check{Path: "/m", Version: 1},
	}
	for at := range len(good) + 1 {
		a := newServer()
		a.must(t, create("/m", 0), create("/m/old", 0), create("/m/mine", wire.Ephemeral))
		before := a.Nodes()
		ops := append(append(append([]any{}, good[:at]...), wire.SetData{Path: "/m", Version: 77}), good[at:]...)
		out := a.do(wire.Multi{Ops: ops})

		require.Equal(t, before, a.Nodes())
		require.EqualValues(t, 4, a.Zxid())
		require.Equal(t, wire.OK, out.Code, "the header does not show the failure")
		require.Equal(t, wire.BadVersion, out.Err())
		require.Empty(t, out.Changes)
		require.Len(t, out.Results, len(ops))
		for i, r := range out.Results {
			want := wire.OK
			if i == at {
				want = wire.BadVersion
			} else if i > at {
				want = wire.RuntimeInconsistency
			}
			require.Equal(t, want, r.Code, "%d", i)
			require.Zero(t, r.Stat)
		}
		require.Equal(t, "/m", out.Results[at].Path)
		require.Equal(t, wire.OpSetData, out.Results[at].Op)
		// It leaves no state for the next request either.
		require.Equal(t, "/m/s0000000002", a.do(create("/m/s", wire.PersistentSequential)).Path)
	}
}

func TestOperationsSeeEffectsOfEarlierOnes(t *testing.T) {
	locked := wire.Create{Op: wire.OpCreate, Path: "/m/l", ACL: []wire.ACL{{Perms: 1, Scheme: "world", ID: "anyone"}}}
	for name, c := range map[string]struct {
		want wire.Code
		ops  []any
	}{
		"a parent that was created":      {wire.OK, []any{create("/m/p", 0), create("/m/p/q", 0)}},
		"a parent that was deleted":      {wire.NoNode, []any{remove("/m/old"), create("/m/old/q", 0)}},
		"a child that was created":       {wire.NotEmpty, []any{create("/m/p", 0), create("/m/p/q", 0), remove("/m/p")}},
		"a child that was deleted":       {wire.OK, []any{create("/m/old/q", 0), remove("/m/old/q"), remove("/m/old")}},
		"a node that was created":        {wire.NodeExists, []any{create("/m/p", 0), create("/m/p", 0)}},
		"a node that was deleted":        {wire.OK, []any{remove("/m/old"), create("/m/old", 0)}},
		"a node deleted twice":           {wire.NoNode, []any{remove("/m/old"), remove("/m/old")}},
		"a version that was set":         {wire.OK, []any{set("/m/old"), set("/m/old"), wire.Delete{Path: "/m/old", Version: 2}}},
		"an outdated version":            {wire.BadVersion, []any{set("/m/old"), wire.Check{Path: "/m/old", Version: 0}}},
		"a version that began again":     {wire.OK, []any{set("/m/old"), remove("/m/old"), create("/m/old", 0), wire.Check{Path: "/m/old", Version: 0}}},
		"an ephemeral parent":            {wire.NoChildrenForEphemerals, []any{create("/m/e", wire.Ephemeral), create("/m/e/q", 0)}},
		"an ACL":                         {wire.NoAuth, []any{locked, create("/m/l/q", 0)}},
		"the root, by both of its paths": {wire.OK, []any{create("/r", 0), set("/"), create("/q", wire.PersistentSequential), wire.Check{Path: "/", Version: 1}}},
		"nothing at all":                 {wire.OK, nil},
	} {
		a := newServer()
		a.must(t, create("/m", 0), create("/m/old", 0))
		out := a.do(wire.Multi{Ops: c.ops})
		require.Equal(t, c.want, out.Err(), name)
		require.Len(t, out.Results, len(c.ops), name)
		require.EqualValues(t, 3, a.Zxid(), name)
	}
}

// Within a transaction the flags alone decide the kind of a created node, and whether the
// result has a Stat.
func TestFlagsAloneDecideNodeKindWithinTransaction(t *testing.T) {
	for _, c := range []struct {
		op     wire.Op
		flags  int32
		ttl    int64
		on     bool
		code   wire.Code // of the transaction
		err    wire.Code // of the operation
		result wire.Op
		kind   string
	}{
		{op: wire.OpCreate, flags: 0, result: wire.OpCreate, kind: "permanent"},
		{op: wire.OpCreate2, flags: 0, result: wire.OpCreate, kind: "permanent"},
		{op: wire.OpCreateContainer, flags: 0, result: wire.OpCreate, kind: "permanent"},
		{op: wire.OpCreateContainer, flags: 1, result: wire.OpCreate, kind: "ephemeral"},
		{op: wire.OpCreateContainer, flags: 4, result: wire.OpCreate2, kind: "container"},
		{op: wire.OpCreate, flags: 4, result: wire.OpCreate2, kind: "container"},
		{op: wire.OpCreateTTL, flags: 0, ttl: -1, result: wire.OpCreate, kind: "permanent"},
		{op: wire.OpCreateTTL, flags: 0, ttl: 5, result: wire.OpCreate, kind: "permanent"},
		{op: wire.OpCreateTTL, flags: 4, ttl: 5, result: wire.OpCreate2, kind: "container"},
		{op: wire.OpCreateTTL, flags: 5, ttl: 5, err: wire.Unimplemented},
		{op: wire.OpCreateTTL, flags: 5, ttl: 5, on: true, result: wire.OpCreate2, kind: "TTL node"},
		{op: wire.OpCreateTTL, flags: 5, ttl: 0, on: true, err: wire.BadArguments},
		{op: wire.OpCreate, flags: 9, err: wire.BadArguments},
		{op: wire.OpCreate, flags: 5, code: wire.MarshallingError, err: wire.MarshallingError},
		{op: wire.OpCreate2, flags: 6, on: true, code: wire.MarshallingError, err: wire.MarshallingError},
	} {
		a := newServer()
		a.TTL = c.on
		req := wire.Create{Op: c.op, Path: "/n", ACL: wire.World, Flags: c.flags, TTL: c.ttl}
		out := a.do(multi(set("/"), req))
		require.Equal(t, c.code, out.Code, "%+v", c)
		require.Equal(t, c.err, out.Err(), "%+v", c)
		switch {
		case c.code != wire.OK:
			require.Empty(t, out.Results)
		case c.err == wire.OK:
			require.Equal(t, c.result, out.Results[1].Op, "%+v", c)
			require.Equal(t, a.stat(t, "/n"), out.Results[1].Stat)
			require.Equal(t, c.kind, kindOf(t, a, "/n"), "%+v", c)
		}
	}
	// Operations after a failed one are not checked.
	out := newServer().do(multi(remove("/none"), create("/n", wire.PersistentWithTTL)))
	require.Equal(t, wire.OK, out.Code)
	require.Equal(t, wire.NoNode, out.Err())
}
