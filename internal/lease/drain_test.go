// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// drained returns how many listings so many waiters cost, spread over replicas, that hold the lease one
// after the other.
func drained(t *testing.T, replicas, waiters int) (listings int) {
	t.Helper()
	simulated(t, func(w world) {
		var r []*lease.Replica
		for range replicas {
			r = append(r, w.replica())
		}
		first := w.acquired(r[0], ask("first"))
		done := make(chan error)
		for i := range waiters {
			go func() {
				r := r[i*7/3%replicas] // in no regular turn
				g, err := r.Acquire(w.Context(), time.Now(), waiting(fmt.Sprint(i), time.Hour))
				if err == nil {
					err = r.Release(w.Context(), g.Ticket)
				}
				done <- err
			}()
			synctest.Wait()
		}
		counter := w.Intercept(zktest.Rule{Op: "getChildren", Below: "/locks"})
		require.NoError(w, r[0].Release(w.Context(), first.Ticket))
		for range waiters {
			require.NoError(w, <-done)
		}
		received := int64(0)
		for _, c := range counter.Counts() {
			listings += c.Requests
			received += c.Sent
		}
		t.Logf("%d waiters of %d replicas: %d listings, %d bytes", waiters, replicas, listings, received)
	})
	return listings
}

func TestHandOffsWithinAReplicaCostNoListing(t *testing.T) {
	need.NoRaceDetector(t)
	require.Less(t, drained(t, 1, 1000), 100, "a tenth of the hand-offs at most")
	require.Less(t, drained(t, 3, 200), 200, "some waiters are behind one of the same replica")
}
