// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestInvalidPathsAreRefusedAsByZooKeeper(t *testing.T) {
	for path, want := range map[string]wire.Code{
		"":         wire.BadArguments,
		"a":        wire.BadArguments,
		"/":        wire.NodeExists,
		"//":       wire.BadArguments,
		"/.":       wire.BadArguments,
		"/..":      wire.BadArguments,
		"/...":     wire.OK,
		"/..a":     wire.OK,
		"/.a":      wire.OK,
		"/p/":      wire.BadArguments,
		"/p/.":     wire.BadArguments,
		"/p//":     wire.NoNode, // its parent is looked up first
		"/p//b":    wire.NoNode,
		"/n/..":    wire.NoNode,
		"/a\x00":   wire.BadArguments,
		"/\x00/b":  wire.BadArguments,
		"/a\x01":   wire.BadArguments,
		"/a\x1f":   wire.BadArguments,
		"/a\x20":   wire.OK,
		"/a\x7f":   wire.BadArguments,
		"/a\u009f": wire.BadArguments,
		"/a\u00a0": wire.OK,
		"/\ud7ff":  wire.OK,
		"/\ue000":  wire.BadArguments,
		"/\uf8ff":  wire.BadArguments,
		"/\uf900":  wire.OK,
		"/\uffef":  wire.OK,
		"/\ufff0":  wire.BadArguments,
		"/\uffff":  wire.BadArguments,
		"/\xff":    wire.BadArguments, // read as U+FFFD
		"/😀":       wire.BadArguments, // surrogates in Java
		"/é":       wire.OK,
	} {
		a := newServer()
		a.must(t, create("/p", 0))
		require.Equal(t, want, a.do(create(path, 0)).Code, "%q", path)
		require.EqualValues(t, 2, a.Zxid(), "a refusal takes a zxid")
	}
}

func TestSequentialPathsAreCheckedWithTheirNumber(t *testing.T) {
	a := newServer()
	a.must(t, create("/p", 0))
	for _, step := range []struct {
		path string
		code wire.Code
		made string
	}{
		{"/p/", wire.OK, "/p/0000000000"},
		{"/p/.", wire.OK, "/p/.0000000001"},
		{"/p//", wire.NoNode, "/p//"},
		{"/", wire.OK, "/0000000001"},
		{"s", wire.BadArguments, "s"},
		{"", wire.BadArguments, ""},
		{"/\x01", wire.BadArguments, "/\x01"},
	} {
		out := a.do(create(step.path, wire.PersistentSequential))
		require.Equal(t, step.code, out.Code, "%q", step.path)
		require.Equal(t, step.made, out.Path)
	}
}

// A request with several errors is refused for the first of them in this order.
func TestCreateIsCheckedInZooKeepersOrder(t *testing.T) {
	a := newServer()
	locked := []wire.ACL{{Perms: wire.PermAll &^ wire.PermCreate, Scheme: "world", ID: "anyone"}}
	a.must(t, create("/e", wire.Ephemeral), create("/p", 0),
		wire.Create{Op: wire.OpCreate, Path: "/locked", ACL: locked}, wire.Create{Op: wire.OpCreate, Path: "/le", ACL: locked, Flags: wire.Ephemeral})
	for _, step := range []struct {
		path  string
		acl   []wire.ACL
		flags int32
		want  wire.Code
	}{
		{"x", nil, 99, wire.BadArguments},
		{"x", nil, wire.PersistentWithTTL, wire.Unimplemented},
		{"x", nil, 0, wire.BadArguments},
		{"/none/x", nil, 99, wire.BadArguments},
		{"/none/x", nil, -1, wire.BadArguments},
		{"/none//", nil, 0, wire.InvalidACL},
		{"/none//", wire.World, 0, wire.NoNode},
		{"/locked/x", nil, 0, wire.InvalidACL},
		{"/locked/.", wire.World, 0, wire.NoAuth},
		{"/le/x", wire.World, 0, wire.NoAuth},
		{"/e/.", wire.World, 0, wire.BadArguments},
		{"/e/x", wire.World, 0, wire.NoChildrenForEphemerals},
		{"/e", wire.World, wire.Ephemeral, wire.NodeExists},
		{"/p", wire.World, 99, wire.BadArguments},
	} {
		out := a.do(wire.Create{Op: wire.OpCreate, Path: step.path, ACL: step.acl, Flags: step.flags})
		require.Equal(t, tree.Outcome{Op: wire.OpCreate, Path: step.path, Code: step.want}, out, "%+v", step)
	}
}

func TestCreateOperationAndFlagsDecideNodeKind(t *testing.T) {
	const none, eph, container, aged = "permanent", "ephemeral", "container", "TTL node"
	for _, c := range []struct {
		op    wire.Op
		flags int32
		ttl   int64
		on    bool
		want  wire.Code
		path  string
		kind  string
	}{
		{op: wire.OpCreate, flags: 0, path: "/n", kind: none},
		{op: wire.OpCreate, flags: 1, path: "/n", kind: eph},
		{op: wire.OpCreate, flags: 2, path: "/n0000000000", kind: none},
		{op: wire.OpCreate, flags: 3, path: "/n0000000000", kind: eph},
		{op: wire.OpCreate, flags: 4, path: "/n", kind: none},
		{op: wire.OpCreate2, flags: 4, path: "/n", kind: none},
		{op: wire.OpCreate2, flags: 1, path: "/n", kind: eph},
		{op: wire.OpCreate, flags: 5, want: wire.Unimplemented},
		{op: wire.OpCreate, flags: 5, on: true, want: wire.BadArguments},
		{op: wire.OpCreateContainer, flags: 4, path: "/n", kind: container},
		{op: wire.OpCreateContainer, flags: 0, path: "/n", kind: container},
		{op: wire.OpCreateContainer, flags: 1, path: "/n", kind: container},
		{op: wire.OpCreateContainer, flags: 2, path: "/n0000000000", kind: container},
		{op: wire.OpCreateContainer, flags: 5, want: wire.Unimplemented},
		{op: wire.OpCreateContainer, flags: 6, on: true, want: wire.BadArguments},
		{op: wire.OpCreateContainer, flags: 9, want: wire.BadArguments},
		{op: wire.OpCreateTTL, flags: 5, ttl: 1, want: wire.Unimplemented},
		{op: wire.OpCreateTTL, flags: 6, ttl: -1, want: wire.Unimplemented},
		{op: wire.OpCreateTTL, flags: 0, ttl: 5, want: wire.BadArguments},
		{op: wire.OpCreateTTL, flags: 4, ttl: 5, on: true, want: wire.BadArguments},
		{op: wire.OpCreateTTL, flags: 5, ttl: 1, on: true, path: "/n", kind: aged},
		{op: wire.OpCreateTTL, flags: 6, ttl: 1<<40 - 1, on: true, path: "/n0000000000", kind: aged},
		{op: wire.OpCreateTTL, flags: 5, ttl: 1 << 40, on: true, want: wire.BadArguments},
		{op: wire.OpCreateTTL, flags: 5, ttl: 0, on: true, want: wire.BadArguments},
		{op: wire.OpCreateTTL, flags: 5, ttl: -1, on: true, want: wire.BadArguments},
		// This one crashes a real server.
		{op: wire.OpCreateTTL, flags: 0, ttl: -1, on: true, want: wire.BadArguments},
	} {
		a := newServer()
		a.TTL = c.on
		out := a.do(wire.Create{Op: c.op, Path: "/n", ACL: wire.World, Flags: c.flags, TTL: c.ttl})
		require.Equal(t, c.want, out.Code, "%+v", c)
		if c.want != wire.OK {
			continue
		}
		stat := wire.Stat{Czxid: 1, Mzxid: 1, Pzxid: 1, Ctime: 1000, Mtime: 1000}
		if c.kind == eph {
			stat.EphemeralOwner = session // clients see no owner of other nodes
		}
		require.Equal(t, tree.Outcome{
			Op: c.op, Path: c.path, Stat: stat, Changes: []tree.Change{created(c.path)},
		}, out)
		require.Equal(t, stat, a.stat(t, c.path))
		require.Equal(t, c.kind, kindOf(t, a, c.path), "%+v", c)
	}
}

// kindOf returns the kind of a node, found by causing each event that could delete it.
func kindOf(t *testing.T, a *server, path string) string {
	t.Helper()
	if len(a.Ephemerals(session, "")) > 0 {
		return "ephemeral"
	}
	const never = 1 << 50
	if len(a.Deletable(never)) > 0 {
		return "TTL node"
	}
	a.must(t, create(path+"/x", 0), remove(path+"/x"))
	if len(a.Deletable(never)) > 0 {
		return "container"
	}
	return "permanent"
}

func TestDataIsStoredUnchanged(t *testing.T) {
	for _, want := range [][]byte{[]byte("before"), nil, {}} {
		for name, ask := range map[string]func(data []byte) any{
			"/made": func(data []byte) any {
				return wire.Create{Op: wire.OpCreate, Path: "/made", Data: data, ACL: wire.World}
			},
			"/set": func(data []byte) any { return wire.SetData{Path: "/set", Data: data, Version: -1} },
		} {
			a := newServer()
			a.must(t, create("/set", 0))
			theirs := bytes.Clone(want)
			a.must(t, ask(theirs))
			copy(theirs, "after!")
			got, stat, code := a.Get(name, nil)
			require.Equal(t, wire.OK, code)
			require.True(t, bytes.Equal(want, got), "%s: %q", name, got)
			require.Equal(t, want == nil, got == nil, "%s: null is not empty", name)
			require.EqualValues(t, len(want), stat.DataLength)
		}
	}
}
