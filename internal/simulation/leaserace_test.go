// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/lease"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// asked sends a request to a replica, and begins a use when it is granted.
func (w *leaseWorld) asked(r *leaseReplica, owner string) {
	w.working.Go(func() {
		sent := time.Now()
		g, err := r.Acquire(context.Background(), sent, lease.Request{
			Path: leasePath, Principal: "p", Owner: owner, RequestID: "1", TTL: 10 * time.Second, Wait: 20 * time.Second,
		})
		if err == nil {
			a := answer{grant: g, sent: sent}
			w.history.begin(owner, g.Ticket.Node, int64(g.Token), a.ends())
		}
	})
	synctest.Wait()
	time.Sleep(10 * time.Millisecond)
}

// A handler whose read of the node is slow must not conclude from a listing that it made before.
// Meanwhile the predecessor leaves, and another handler is granted the lease.
func TestHandlerWithOldListingDoesNotOverwriteGrant(t *testing.T) {
	for skip := range 3 {
		checkLeases(t, "a slow read", "-run "+t.Name(), func() ([]string, error) {
			w, err := newLeaseWorld(rand.New(rand.NewPCG(1, 1)), 1, 4*time.Millisecond)
			if err != nil {
				return nil, err
			}
			first, err := w.replicas[0].Acquire(context.Background(), time.Now(), lease.Request{
				Path: leasePath, Principal: "p", Owner: "a", RequestID: "1", TTL: 10 * time.Second,
			})
			if err != nil {
				return nil, err
			}
			w.asked(w.replicas[0], "b")
			slow := w.links[1].Intercept(zktest.Rule{Op: "getData", Below: leasePath, Skip: skip, Times: 1, Hold: zktest.ToServer})
			w.asked(w.replicas[1], "b")
			if err := w.replicas[0].Release(context.Background(), first.Ticket); err != nil {
				return nil, err
			}
			time.Sleep(100 * time.Millisecond)
			slow.Remove()
			w.working.Wait()
			return w.end(nil)
		})
	}
}
