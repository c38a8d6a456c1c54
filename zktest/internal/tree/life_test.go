// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestSessionsNodesAreDeletedAtOneZxid(t *testing.T) {
	a := newServer()
	a.must(t, create("/k", 0), createContainer("/k/c"))
	for _, path := range []string{"/k/c/e3", "/k/b", "/k/c/e1", "/a"} {
		a.must(t, create(path, wire.Ephemeral))
	}
	_, out := a.commit(session+1, create("/k/other", wire.Ephemeral))
	require.Equal(t, wire.OK, out.Code)
	require.Equal(t, []string{"/a", "/k/b", "/k/c/e1", "/k/c/e3"}, a.Ephemerals(session, ""))

	a.zxid++
	_, out = a.CloseSession(a.zxid, 99, session)
	require.Equal(t, tree.Outcome{
		Op:      wire.OpCloseSession,
		Removed: []string{"/a", "/k/b", "/k/c/e1", "/k/c/e3"},
		Changes: []tree.Change{
			deleted("/a"),
			deleted("/k/b"),
			deleted("/k/c/e1"),
			deleted("/k/c/e3"),
		},
	}, out)
	require.Equal(t, a.zxid, a.Zxid())
	for _, parent := range []string{"/", "/k", "/k/c"} {
		require.Equal(t, a.zxid, a.stat(t, parent).Pzxid)
	}
	require.Equal(t, []string{"c", "other"}, a.children(t, "/k"))
	require.Empty(t, a.Ephemerals(session, ""))
	require.Equal(t, []string{"/k/other"}, a.Ephemerals(session+1, ""))

	_, out = a.commit(session, wire.CloseSession{})
	require.Equal(t, tree.Outcome{Op: wire.OpCloseSession}, out, "closing a session without nodes is a transaction too")
	require.Equal(t, a.zxid, a.Zxid())
}

func TestDeletedEphemeralNodeNoLongerBelongsToSession(t *testing.T) {
	a := newServer()
	a.must(t, create("/e", wire.Ephemeral), remove("/e"), create("/e", 0))
	require.Empty(t, a.Ephemerals(session, ""))
	_, out := a.commit(session, wire.CloseSession{})
	require.Empty(t, out.Removed)
	a.stat(t, "/e")

	a.must(t, remove("/e"), create("/e", wire.Ephemeral), multi(remove("/e"), create("/e", wire.Ephemeral), remove("/e")))
	require.Empty(t, a.Ephemerals(session, ""))
}

func TestEphemeralNodesAreListedByPrefix(t *testing.T) {
	a := newServer()
	a.must(t, create("/a", 0), create("/a/x", wire.Ephemeral), create("/ab", wire.Ephemeral), create("/b", wire.Ephemeral))
	for prefix, want := range map[string][]string{
		"":      {"/a/x", "/ab", "/b"},
		"/":     {"/a/x", "/ab", "/b"},
		" \t/ ": {"/a/x", "/ab", "/b"},
		"/a":    {"/a/x", "/ab"}, // the prefix is text, not a path
		"/a/":   {"/a/x"},
		"/c":    {},
		" /a":   {},
	} {
		require.Equal(t, want, a.Ephemerals(session, prefix), "%q", prefix)
	}
}

func TestContainerIsDeletableAfterItsLastChild(t *testing.T) {
	a := newServer()
	a.must(t, createContainer("/never"), createContainer("/has"), createContainer("/had"), createContainer("/again"),
		create("/has/x", 0), create("/had/x", 0), remove("/had/x"), create("/again/x", wire.Ephemeral), create("/plain", 0), create("/plain/x", 0), remove("/plain/x"))
	require.Equal(t, []string{"/had"}, a.Deletable(0))
	_, _ = a.commit(session, wire.CloseSession{})
	require.Equal(t, []string{"/again", "/had"}, a.Deletable(0))

	a.must(t, create("/again/y", 0))
	require.Equal(t, tree.Outcome{
		Op: wire.OpDeleteContainer, Path: "/had", Changes: []tree.Change{deleted("/had")},
	}, a.do(tree.DeleteContainer{Path: "/had"}))
	require.Equal(t, a.zxid, a.stat(t, "/").Pzxid)
	require.Empty(t, a.Deletable(0))
	for path, want := range map[string]wire.Code{
		"/again": wire.NotEmpty, "/had": wire.NoNode, "/": wire.BadArguments, "x": wire.BadArguments, "/plain/\x00": wire.BadArguments,
	} {
		require.Equal(t, tree.Outcome{Op: wire.OpDeleteContainer, Path: path, Code: want}, a.do(tree.DeleteContainer{Path: path}))
	}
	a.must(t, create("/e", wire.Ephemeral))
	require.Equal(t, wire.BadVersion, a.do(tree.DeleteContainer{Path: "/e"}).Code)
	a.must(t, remove("/again/y"), remove("/again"), create("/again", 0))
	require.Empty(t, a.Deletable(0), "the node with that name is no longer a container")
}

func TestTTLNodeIsDeletableAfterItsTTL(t *testing.T) {
	a := newServer()
	a.TTL = true
	a.must(t, createTTL("/n", wire.PersistentWithTTL, 500), createTTL("/p", wire.PersistentWithTTL, 500), create("/p/x", 0))
	require.Empty(t, a.Deletable(1500))
	require.Equal(t, []string{"/n"}, a.Deletable(1501), "since 1000, for more than 500 ms")
	require.Equal(t, []string{"/n"}, a.Deletable(1<<60), "not the one with a child")
	a.must(t, set("/n")) // at 4000
	require.Empty(t, a.Deletable(4500))
	require.Equal(t, []string{"/n"}, a.Deletable(4501))
	a.must(t, remove("/p/x"))
	require.Equal(t, []string{"/n", "/p"}, a.Deletable(4501), "the deletion of a child does not renew the TTL")
	require.Zero(t, a.stat(t, "/n").EphemeralOwner)
}
