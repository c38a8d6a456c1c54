// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A resource records who uses it, under the rule that a holder keeps.
type resource struct {
	w       world
	context string

	mu     sync.Mutex // guards what follows
	user   string
	newest fencing.Token
	grants int
}

func (r *resource) begin(user string, token fencing.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.user != "" {
		r.w.Errorf("%s: %s is granted while %s uses it", r.context, user, r.user)
	}
	if token <= r.newest {
		r.w.Errorf("%s: token %d after %d", r.context, token, r.newest)
	}
	r.user, r.newest = user, token
	r.grants++
}

func (r *resource) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.user = ""
}

// use acquires, renews and releases a lease as an HTTP client does: it repeats a request
// whose outcome is unknown, at either replica.
func (r *resource) use(owner string, replicas ...*lease.Replica) {
	w := r.w
	for i := 0; ; i++ {
		sent := time.Now()
		g, err := w.acquire(replicas[i%len(replicas)], waiting(owner, 40*time.Second))
		var poll *lease.WaitingError
		var held *lease.HeldError
		switch {
		case err == nil:
		case errors.Is(err, lease.ErrUncertain), errors.Is(err, lease.ErrSuperseded), errors.As(err, &poll), errors.As(err, &held):
			time.Sleep(time.Millisecond)
			continue
		default:
			w.Errorf("%s: acquire: %v", r.context, err)
			return
		}
		if time.Since(sent) >= g.Valid {
			continue
		}
		r.begin(owner, g.Token)
		until := sent.Add(g.Valid)
		time.Sleep(timeout / 5)
		sent = time.Now()
		if renewed, err := replicas[(i+1)%len(replicas)].Renew(w.Context(), sent, g.Ticket, ttl); err == nil {
			until = sent.Add(renewed.Valid)
		} else if !errors.Is(err, lease.ErrUncertain) {
			w.Errorf("%s: renew: %v", r.context, err)
		}
		if time.Now().After(until) {
			w.Errorf("%s: the lease of %s has ended meanwhile", r.context, owner)
		}
		r.end()
		for {
			err := replicas[i%len(replicas)].Release(w.Context(), g.Ticket)
			if err == nil || errors.Is(err, lease.ErrGone) {
				return
			}
			if !errors.Is(err, lease.ErrUncertain) {
				w.Errorf("%s: release: %v", r.context, err)
				return
			}
		}
	}
}

// swept runs two replicas and a library client, whose n-th request is lost in that direction. It
// reports whether the scenario reached that request.
func swept(t *testing.T, n int, lost zktest.Direction) (reached bool) {
	t.Helper()
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		queue, err := recipes.NewQueue(w.client(recipes.Options{}), path, nil)
		require.NoError(w, err)
		cut := w.Intercept(zktest.Rule{
			When: func(r zktest.Request) bool { return r.Op != "ping" && r.Op != "connect" },
			Skip: n, Times: 1, Lose: lost,
		})
		r := &resource{w: w, context: fmt.Sprintf("request %d lost (%v)", n, lost)}
		var users sync.WaitGroup
		users.Go(func() { r.use("a", one, other) })
		users.Go(func() { r.use("b", other, one) })
		users.Go(func() { r.use("c", one) })
		users.Go(func() {
			claim, err := queue.Claim(w.Context())
			if err != nil {
				w.Errorf("%s: claim: %v", r.context, err)
				return
			}
			r.begin("library", claim.Token())
			time.Sleep(timeout / 5)
			r.end()
			if err := queue.Release(w.Context(), claim); err != nil {
				w.Errorf("%s: release: %v", r.context, err)
			}
		})
		users.Wait()
		reached = cut.Fired() > 0
		time.Sleep(expired)
		require.Empty(w, w.nodes(), r.context)
		require.GreaterOrEqual(w, r.grants, 4, r.context)
	})
	return reached
}

func TestNoLostRequestOverlapsGrantsOrLeavesNode(t *testing.T) {
	for name, lost := range map[string]zktest.Direction{"before it is carried out": zktest.ToServer, "its answer": zktest.ToClient} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for swept(t, n, lost) {
				n++
			}
			require.Greater(t, n, 30, "the scenario has that many requests at least")
			t.Logf("%d requests", n)
		})
	}
}
