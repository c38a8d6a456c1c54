// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func (a *server) sequential(t *testing.T, prefix string) string {
	t.Helper()
	out := a.do(create(prefix, wire.PersistentSequential))
	require.Equal(t, wire.OK, out.Code, prefix)
	return out.Path
}

func TestCounterCountsCreationsOfAnyChildAndNoDeletions(t *testing.T) {
	a := newServer()
	a.must(t, create("/p", 0))
	require.Equal(t, "/p/a0000000000", a.sequential(t, "/p/a"))
	a.must(t, create("/p/plain", 0), remove("/p/plain"), remove("/p/a0000000000"))
	require.Equal(t, wire.NoNode, a.do(remove("/p/plain")).Code)
	require.Equal(t, "/p/b0000000002", a.sequential(t, "/p/b"))
	a.must(t, createContainer("/p/c"))
	require.Equal(t, "/p/a0000000004", a.sequential(t, "/p/a"))

	a.must(t, remove("/p/a0000000004"), remove("/p/b0000000002"), remove("/p/c"), remove("/p"), create("/p", 0))
	require.Equal(t, "/p/a0000000000", a.sequential(t, "/p/a"), "a new parent counts from 0")
}

func TestCounterSticksAtMaximum(t *testing.T) {
	a := newServer()
	a.must(t, create("/p", 0))
	require.Equal(t, wire.OK, a.SetCounter("/p", math.MaxInt32-2))
	require.Equal(t, "/p/a-2147483645", a.sequential(t, "/p/a-"))
	require.Equal(t, "/p/a-2147483646", a.sequential(t, "/p/a-"))
	moved := a.stat(t, "/p")
	require.EqualValues(t, a.zxid, moved.Pzxid)
	require.EqualValues(t, -4, moved.Cversion, "twice the counter, minus the children, in 32 bits")

	require.Equal(t, "/p/a-2147483647", a.sequential(t, "/p/a-"))
	stuck := a.stat(t, "/p")
	require.Equal(t, moved.Pzxid, stuck.Pzxid, "a creation that does not change the counter does not change pzxid")
	require.EqualValues(t, -5, stuck.Cversion)

	require.Equal(t, wire.NodeExists, a.do(create("/p/a-", wire.PersistentSequential)).Code)
	require.Equal(t, "/p/b2147483647", a.sequential(t, "/p/b"))
	require.Equal(t, "/p/c2147483647", a.sequential(t, "/p/c"))
	a.must(t, create("/p/plain", 0))
	require.Equal(t, moved.Pzxid, a.stat(t, "/p").Pzxid)

	a.must(t, remove("/p/a-2147483647"))
	require.EqualValues(t, a.zxid, a.stat(t, "/p").Pzxid, "deletions still change it")
	require.Equal(t, "/p/a-2147483647", a.sequential(t, "/p/a-"))
}

func TestCounterWrapsWithinTransactionAndThenSticks(t *testing.T) {
	a := newServer()
	a.must(t, create("/p", 0))
	require.Equal(t, wire.OK, a.SetCounter("/p", math.MaxInt32-1))
	next := create("/p/m", wire.PersistentSequential)
	out := a.do(multi(next, next, next))
	var paths []string
	for _, r := range out.Results {
		paths = append(paths, r.Path)
	}
	require.Equal(t, []string{"/p/m2147483646", "/p/m2147483647", "/p/m-2147483648"}, paths)
	require.EqualValues(t, -5, a.stat(t, "/p").Cversion)
	require.Equal(t, "/p/n2147483647", a.sequential(t, "/p/n"))
}

func TestNegativeCountersCountUp(t *testing.T) {
	a := newServer()
	a.must(t, create("/p", 0))
	require.Equal(t, wire.OK, a.SetCounter("/p", -3))
	for _, want := range []string{"/p/a-000000003", "/p/a-000000002", "/p/a-000000001", "/p/a0000000000"} {
		require.Equal(t, want, a.sequential(t, "/p/a"))
		require.Equal(t, a.zxid, a.stat(t, "/p").Pzxid)
	}
	require.EqualValues(t, -2, a.stat(t, "/p").Cversion)
	require.Equal(t, wire.NoNode, a.SetCounter("/none", 1))
}
