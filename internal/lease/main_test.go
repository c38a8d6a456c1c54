// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	timeout = 6 * time.Second
	ttl     = 30 * time.Second
	path    = "/locks/ledger"

	// expired is just longer than an observer waits, and notYet just shorter.
	expired = ttl*33/32 + timeout/100
	notYet  = ttl*33/32 - timeout/100
)

// A world is an ensemble in fake time.
type world struct {
	*testing.T
	*zktest.Ensemble
}

// simulated runs a test in fake time.
func simulated(t *testing.T, f func(w world)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(context.Background(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(world{t, ensemble})
	})
}

// client connects a client that ends with the test.
func (w world) client(opts recipes.Options) *recipes.Client {
	w.Helper()
	opts.SessionTimeout = timeout
	if opts.Dial == nil {
		opts.Dial = w.Dial
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	client, err := recipes.Connect(w.Context(), w.Addrs(), &opts)
	require.NoError(w, err)
	w.Cleanup(func() { client.Close() })
	return client
}

// replica returns a replica with its own client.
func (w world) replica() *lease.Replica {
	w.Helper()
	return w.replicaOf(w.client(recipes.Options{}))
}

func (w world) replicaOf(client *recipes.Client) *lease.Replica {
	w.Helper()
	r, err := lease.New(client, nil)
	require.NoError(w, err)
	w.Cleanup(r.Close)
	return r
}

// claimed claims the lock for a client of the library.
func (w world) claimed(opts recipes.Options) (*queue.Queue, *recipes.Claim) {
	w.Helper()
	queue, err := queue.New(w.client(opts), path, nil)
	require.NoError(w, err)
	claim, err := queue.Claim(w.Context())
	require.NoError(w, err)
	return queue, claim
}

// force revokes the front with that token.
func force(token fencing.Token) lease.Force {
	return lease.Force{Path: path, Token: token, By: "admin", Reason: "maintenance"}
}

// revoked revokes the front with that token, which must succeed.
func (w world) revoked(r *lease.Replica, token fencing.Token) lease.Forced {
	w.Helper()
	forced, err := r.ForceRelease(w.Context(), force(token))
	require.NoError(w, err)
	return forced
}

// ask returns a request of an owner that does not wait.
func ask(owner string) lease.Request {
	return lease.Request{Path: path, Principal: "p", Owner: owner, RequestID: "request of " + owner, TTL: ttl}
}

// waiting returns a request of an owner that waits.
func waiting(owner string, wait time.Duration) lease.Request {
	req := ask(owner)
	req.Wait = wait
	return req
}

func (w world) acquire(r *lease.Replica, req lease.Request) (lease.Grant, error) {
	return r.Acquire(w.Context(), time.Now(), req)
}

// acquired acquires a lease, which must succeed.
func (w world) acquired(r *lease.Replica, req lease.Request) lease.Grant {
	w.Helper()
	g, err := w.acquire(r, req)
	require.NoError(w, err)
	return g
}

// An outcome is what a call of Acquire returned, and when.
type outcome struct {
	grant lease.Grant
	err   error
	at    time.Time
}

// acquiring calls Acquire on another goroutine, and returns once all is quiet.
func (w world) acquiring(ctx context.Context, r *lease.Replica, req lease.Request) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		g, err := r.Acquire(ctx, time.Now(), req)
		result <- outcome{g, err, time.Now()}
	}()
	synctest.Wait()
	return result
}

func (w world) requireWaiting(result <-chan outcome) {
	w.Helper()
	synctest.Wait()
	select {
	case o := <-result:
		require.Fail(w, "decided", "%+v %v", o.grant, o.err)
	default:
	}
}

// nodes returns the names of the contenders' nodes.
func (w world) nodes() []string {
	w.Helper()
	synctest.Wait()
	names, err := w.Children(path)
	if errors.Is(err, zktest.ErrNoNode) {
		return nil // the container was removed
	}
	require.NoError(w, err)
	return names
}

// requests counts the requests that f causes, apart from pings.
func (w world) requests(f func()) map[string]int {
	w.Helper()
	counter := w.Intercept(zktest.Rule{When: func(r zktest.Request) bool { return r.Op != "ping" }})
	defer counter.Remove()
	f()
	synctest.Wait()
	counts := make(map[string]int)
	for _, c := range counter.Counts() {
		counts[strings.TrimSuffix(c.Op, "2")] += c.Requests
	}
	return counts
}
