// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// BenchmarkThousandNodes reports the total memory of a thousand nodes with 100 bytes of
// data each. An op is one node.
func BenchmarkThousandNodes(b *testing.B) {
	e, err := zktest.Run(b.Context(), &zktest.Options{InMemory: true})
	require.NoError(b, err)
	defer func() { require.NoError(b, e.Close()) }()
	require.NoError(b, e.Create("/bench", nil))
	data := make([]byte, 100)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	nodes, before := 0, heap()
	for b.Loop() {
		require.NoError(b, e.Create(fmt.Sprintf("/bench/node-%010d", nodes), data))
		nodes++
	}
	b.ReportMetric(float64(heap()-before)/float64(nodes)*1000, "bytes/1000nodes")
}
