// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A leaseReplica is a replica of the lock service on one server, which counts its requests.
type leaseReplica struct {
	*lease.Replica
	env    *env
	client *recipes.Client
}

func (s *env) leaseReplica() *leaseReplica {
	s.T.Helper()
	client := s.Connect(recipes.Options{SessionTimeout: time.Minute}, s.ensemble.Addrs()[0]) // which sends no ping while requests are counted
	r, err := lease.New(client, &lease.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s.T, err)
	s.T.Cleanup(r.Close)
	return &leaseReplica{r, s, client}
}

// costs requires that f causes so many requests of the replica, by the count of the server.
func (r *leaseReplica) costs(what string, requests int, f func()) {
	r.env.T.Helper()
	server := r.env.ensemble.Servers()[0]
	before := r.env.received(server, r.client)
	f()
	require.Equal(r.env.T, requests, r.env.received(server, r.client)-before, what)
}

func (r *leaseReplica) acquire(owner string, wait time.Duration) (lease.Grant, error) {
	return r.Acquire(r.env.Ctx, time.Now(), lease.Request{
		Path: r.env.Path("lease"), Principal: "p", Owner: owner, RequestID: "request of " + owner, TTL: time.Minute, Wait: wait,
	})
}

func (r *leaseReplica) acquired(owner string) lease.Grant {
	r.env.T.Helper()
	g, err := r.acquire(owner, 0)
	require.NoError(r.env.T, err)
	return g
}

func (r *leaseReplica) renewed(g lease.Grant) {
	r.env.T.Helper()
	_, err := r.Renew(r.env.Ctx, time.Now(), g.Ticket, time.Minute)
	require.NoError(r.env.T, err)
}

func (r *leaseReplica) released(g lease.Grant) {
	r.env.T.Helper()
	require.NoError(r.env.T, r.Release(r.env.Ctx, g.Ticket))
}

// docs/service-operation.md has these numbers.
func TestLeaseCostsTheDocumentedRequests(t *testing.T) {
	s := onOne(t)
	one, other := s.leaseReplica(), s.leaseReplica()
	one.released(one.acquired("first"))

	var g lease.Grant
	one.costs("acquire: 1 write", 1, func() { g = one.acquired("a") })
	one.costs("renew: 1 write", 1, func() { one.renewed(g) })
	other.costs("renew at another replica: 1 read, 1 write", 2, func() { other.renewed(g) })
	other.costs("acquire, repeated: 2 listings, 1 read, 1 write", 4, func() { other.acquired("a") })
	other.costs("acquire, refused: 2 listings, 1 sync, 1 read", 4, func() {
		_, err := other.acquire("b", 0)
		require.ErrorAs(t, err, new(*lease.HeldError))
	})

	watches, waiting := s.watchCount(), make(chan lease.Grant, 1)
	other.costs("acquire, contended: 1 listing, 1 read of the parent, 1 write, 1 listing, 1 watch", 5, func() {
		go func() {
			g, err := other.acquire("b", 15*time.Second)
			if err != nil {
				t.Error(err)
			}
			waiting <- g
		}()
		s.Eventually("a watch of the waiter", func() bool { return s.watchCount() > watches })
	})
	other.costs("grant after a wait: 1 write", 1, func() {
		one.released(g)
		g = <-waiting
	})
	other.costs("release: 1 write", 1, func() { other.released(g) })
}
