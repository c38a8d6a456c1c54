// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

const (
	seeds    = 60
	requests = 300
)

// generated runs f with a generator of each seed, in a subtest named after the seed.
func generated(t *testing.T, f func(t *testing.T, g generator, a *server)) {
	t.Helper()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			g := newGenerator(seed)
			a := newServer()
			a.TTL = seed%2 == 0
			f(t, g, a)
		})
	}
}

func TestApplyEqualsCommit(t *testing.T) {
	succeeded, failed := 0, 0
	generated(t, func(t *testing.T, g generator, a *server) {
		t.Helper()
		follower := a.Clone()
		var late *tree.Tree // a follower that starts from the leader's data later
		var backlog []tree.Txn
		for i := range requests {
			if i == requests/3 {
				late = a.Clone()
			}
			req := g.request()
			txn, out := a.commit(int64(g.IntN(3)), req, g.identities()...)
			require.Equal(t, out, follower.Apply(txn), "%+v", req)
			require.Equal(t, a.zxid, follower.Zxid())
			if late != nil {
				backlog = append(backlog, txn)
			}
			if out.Err() == wire.OK {
				succeeded++
			} else {
				failed++
			}
		}
		require.Equal(t, a.Tree, follower)
		for _, txn := range backlog {
			late.Apply(txn)
		}
		require.Equal(t, a.Tree, late)
		consistent(t, a)
	})
	require.Greater(t, succeeded, seeds*requests/10, "otherwise the sequences test little")
	require.Greater(t, failed, seeds*requests/10)
}

// consistent requires the invariants of every tree.
func consistent(t *testing.T, a *server) {
	t.Helper()
	seen, nodes := map[string]bool{}, 0
	owned := map[int64][]string{}
	a.Walk(func(path string, data []byte, stat wire.Stat) {
		require.False(t, seen[path], path)
		seen[path] = true
		nodes++
		names, same, code := a.Children(path, []tree.Identity{super})
		require.Equal(t, wire.OK, code)
		require.Equal(t, stat, same)
		require.Len(t, names, int(stat.NumChildren))
		require.Len(t, data, int(stat.DataLength))
		require.LessOrEqual(t, stat.Czxid, stat.Mzxid)
		require.LessOrEqual(t, stat.Czxid, stat.Pzxid)
		require.LessOrEqual(t, max(stat.Mzxid, stat.Pzxid), a.Zxid())
		if stat.EphemeralOwner != 0 {
			owned[stat.EphemeralOwner] = append(owned[stat.EphemeralOwner], path)
			require.Empty(t, names)
		}
	})
	below, _ := a.CountDescendants("/", []tree.Identity{super})
	require.EqualValues(t, nodes-1, below)
	for session, paths := range owned {
		require.ElementsMatch(t, paths, a.Ephemerals(session, ""))
	}
	for _, path := range a.Deletable(1 << 60) {
		require.True(t, seen[path], path)
		require.Equal(t, wire.OK, a.do(tree.DeleteContainer{Path: path}).Code)
	}
}

func TestRefusedRequestsLeaveNoTrace(t *testing.T) {
	need.NoRaceDetector(t)
	generated(t, func(t *testing.T, g generator, a *server) {
		t.Helper()
		for range requests {
			before := a.Nodes()
			req := g.request()
			out := a.do(req, g.identities()...)
			require.Equal(t, a.zxid, a.Zxid())
			if out.Err() != wire.OK {
				require.Equal(t, before, a.Nodes(), "%+v", req)
				require.Empty(t, out.Changes)
			}
		}
	})
}

func TestTransactionEqualsItsOperationsInSequence(t *testing.T) {
	generated(t, func(t *testing.T, g generator, a *server) {
		t.Helper()
		for range requests {
			single := a.Clone()
			m, who := g.transaction(), g.identities()
			out := a.do(m, who...)
			for i, op := range m.Ops {
				_, one := single.Commit(a.zxid, a.zxid*1000, session, who, op)
				if code := out.Err(); code != wire.OK {
					if one.Code != wire.OK {
						require.Equal(t, out.Results[i].Code, one.Code)
						require.Equal(t, code, one.Code)
						break
					}
					continue
				}
				if one.Op == wire.OpCreateContainer || one.Op == wire.OpCreateTTL {
					one.Op = wire.OpCreate2
				}
				require.Equal(t, out.Results[i], one, "%+v", m)
			}
			if out.Err() == wire.OK {
				require.Equal(t, a.Nodes(), single.Nodes(), "%+v", m)
			}
		}
	})
}

func TestApplyPanicsOnTransactionOfAnotherHistory(t *testing.T) {
	a, b := newServer(), tree.New()
	skipped, _ := a.commit(session, create("/p", 0))
	child, _ := a.commit(session, create("/p/c", 0))
	require.PanicsWithValue(t, `tree: transaction 0x2 concerns "/p", which does not exist`, func() { b.Apply(child) })
	b.Apply(skipped)
	require.PanicsWithValue(t, `tree: transaction 0x1 creates "/p", which exists`, func() { b.Apply(skipped) })
	require.Panics(t, func() { b.Apply(tree.Txn{Zxid: 2}) })
}
