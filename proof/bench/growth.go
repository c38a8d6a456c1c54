// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "fmt"

// growths are the numbers of clients for which costs are calculated, crowds those with which waiters were measured.
var (
	growths = []int{10, 100, 1000, 10_000, 100_000}
	crowds  = []int{10, 1000, 5000}
)

// HolderWrites is the measured number of quorum writes in T of a client that holds locks and does nothing else, however many.
func (ds documents) HolderWrites() float64 {
	v, _ := ds.median(idleHolds.name, 1, ours, "writes a second")
	return v * idleTimeout.Seconds()
}

// WaiterWrites is that of a client that only waits: of those that waited, without the holder's.
func (ds documents) WaiterWrites() float64 {
	v, found := ds.median(idleWaiters.name, 1, ours, "writes a second")
	n, _ := ds.median(idleWaiters.name, 1, ours, "claims")
	if !found || n == 0 {
		return 0
	}
	return max(0, v*idleTimeout.Seconds()-ds.HolderWrites()) / n
}

func (ds documents) writesOfHolders(n int) float64 {
	return ds.HolderWrites() * float64(n) / idleTimeout.Seconds()
}

func (ds documents) writesOfWaiters(n int) float64 {
	return (ds.HolderWrites() + ds.WaiterWrites()*float64(n-1)) / idleTimeout.Seconds()
}

// linear is a cost that is fixed + each × the number of waiters.
type linear struct{ fixed, each float64 }

func (l linear) at(n int) float64 { return l.fixed + l.each*float64(n) }

// fit returns the cost of a metric of ours, from the smallest and the largest crowd that was measured.
func (ds documents) fit(metric string) (l linear) {
	first, base := 0, 0.0
	for _, n := range crowds {
		v, found := ds.median(fmt.Sprintf("waiters-%d", n), 1, ours, metric)
		switch {
		case !found:
		case first == 0:
			first, base, l.fixed = n, v, v
		default:
			l.each = max(0, (v-base)/float64(n-first))
			l.fixed = base - l.each*float64(first)
		}
	}
	return l
}

// capacity is how many writes a second an ensemble carried out when 64 threads of the bare client created and deleted nodes.
func (ds documents) capacity(servers int) float64 {
	v, _ := ds.median(oneSession.name, servers, bare, "rate")
	return 2 * v
}
