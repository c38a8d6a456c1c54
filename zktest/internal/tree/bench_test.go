// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// populated returns a server with 10 lock parents and n contender nodes in total.
func populated(n int) *server {
	a := newServer()
	for i := range 10 {
		a.do(create(fmt.Sprintf("/lock-%d", i), 0))
	}
	acl := []wire.ACL{entry(wire.PermAll, "world", "anyone")}
	for i := range n {
		a.commit(int64(1+i%100), wire.Create{
			Op: wire.OpCreate, ACL: acl, Flags: wire.EphemeralSequential, Path: fmt.Sprintf("/lock-%d/0123456789abcdef-", i%10),
		})
	}
	return a
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// bytesPerNode returns the memory that a node of populated takes.
func bytesPerNode() float64 {
	const n = 50_000
	before := heap()
	a := populated(n)
	used := heap() - before
	runtime.KeepAlive(a)
	return float64(used) / n
}

func TestNodeTakesUnder400Bytes(t *testing.T) {
	require.Less(t, bytesPerNode(), 400.0)
}

func BenchmarkMemoryOf1000Nodes(b *testing.B) {
	var each float64
	for b.Loop() {
		each = bytesPerNode()
	}
	b.ReportMetric(1000*each, "B/1000nodes")
}

func BenchmarkCommit(b *testing.B) {
	const path = "/lock-0/contender-"
	who := []tree.Identity{local}
	for name, step := range map[string]func(a *server){
		"create and delete": func(a *server) {
			a.do(remove(a.do(create(path, wire.EphemeralSequential), who...).Path), who...)
		},
		"setData":             func(a *server) { a.do(set("/lock-0"), who...) },
		"multi of one check":  func(a *server) { a.do(multi(wire.Check{Path: "/lock-0", Version: -1}), who...) },
		"refused":             func(a *server) { a.do(remove("/none"), who...) },
		"children of 100":     func(a *server) { _, _, _ = a.Children("/lock-1", who) },
		"data of a lock node": func(a *server) { _, _, _ = a.Get("/lock-0", who) },
	} {
		b.Run(name, func(b *testing.B) {
			a := populated(1000)
			b.ReportAllocs()
			for b.Loop() {
				step(a)
			}
		})
	}
}

func BenchmarkClone(b *testing.B) {
	a := populated(1000)
	b.ReportAllocs()
	for b.Loop() {
		a.Clone()
	}
}
