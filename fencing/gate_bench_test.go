// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// mutexGate is the obvious implementation, for comparison.
type mutexGate struct {
	mu     sync.Mutex
	newest fencing.Token // guarded by mu
}

func (g *mutexGate) Admit(t fencing.Token) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t < g.newest {
		return &fencing.StaleError{Token: t, Newest: g.newest}
	}
	g.newest = t
	return nil
}

// BenchmarkAdmit measures the cost that the check adds to a write: one holder writes from all cores.
func BenchmarkAdmit(b *testing.B) {
	for _, rival := range []struct {
		name string
		gate interface{ Admit(t fencing.Token) error }
	}{
		{"Gate", new(fencing.Gate)},
		{"Mutex", new(mutexGate)},
	} {
		b.Run(rival.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := rival.gate.Admit(4294967311); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
