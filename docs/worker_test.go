// SPDX-License-Identifier: Apache-2.0

package worker_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// TestMain fails the run if a test leaves an ensemble or a client open.
func TestMain(m *testing.M) { os.Exit(zktest.Main(m)) }

// A worker represents a separate process: a client with its own session, which works while it
// leads.
type worker struct {
	client  *recipes.Client
	started chan fencing.Token // receives a token when a term begins
	stopped chan error         // receives the reason when a term ends
}

// work represents your work. It must end when its context is done.
func (w *worker) work(ctx context.Context, term *election.Term) error {
	w.started <- term.Token()
	<-ctx.Done()
	w.stopped <- context.Cause(ctx)
	return context.Cause(ctx)
}

// start starts a worker, which stops at the end of the test.
func start(t *testing.T, id string, servers []string, opts *recipes.Options) *worker {
	t.Helper()
	client, err := recipes.Connect(t.Context(), servers, opts)
	require.NoError(t, err)
	sweeper, err := election.New(client, "/election/sweeper", &election.Options{Owner: id})
	require.NoError(t, err)
	w := &worker{client: client, started: make(chan fencing.Token, 10), stopped: make(chan error, 10)}
	ended := make(chan error, 1)
	go func() { ended <- sweeper.Run(t.Context(), w.work) }() // done at the end of the test
	t.Cleanup(func() {
		if err := <-ended; err != nil { // nil: all its nodes are gone
			require.ErrorIs(t, err, recipes.ErrUncertain) // a partitioned worker cannot know
		}
		client.Close()
	})
	return w
}

func TestWorkMovesWhenLeaderIsExpired(t *testing.T) {
	srv := zktest.Start(t, nil)
	a := start(t, "a", srv.Addrs(), nil)
	first := <-a.started
	b := start(t, "b", srv.Addrs(), nil)
	require.NoError(t, srv.Await(t.Context(), "/election/sweeper", 2), "b is queued")

	require.NoError(t, srv.Expire(t.Context(), a.client.SessionID()))

	require.ErrorIs(t, <-a.stopped, recipes.ErrSessionExpired)
	second := <-b.started
	var gate fencing.Gate // at the resource that your leader writes
	require.NoError(t, gate.Admit(second))
	require.ErrorIs(t, gate.Admit(first), fencing.ErrStale)
}

func TestWorkStopsBeforeAnotherLeaderStarts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with two, Go 1.26's race detector can crash in a bubble
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, &zktest.Options{Servers: 3, InMemory: true})
		link := srv.Link() // a's own path to the servers
		a := start(t, "a", srv.Addrs(), &recipes.Options{Dial: link.Dial})
		first := <-a.started
		b := start(t, "b", srv.Addrs(), &recipes.Options{Dial: srv.Dial})
		synctest.Wait() // until b is queued

		began := time.Now()
		link.Hold(zktest.Both) // a network partition: nothing arrives, and no side gets an error

		require.ErrorIs(t, <-a.stopped, recipes.ErrDeadline)
		notified := time.Since(began)
		require.Empty(t, b.started, "b leads only after a has stopped")
		require.Greater(t, <-b.started, first)
		t.Logf("after the partition, a stops after %v; b starts after %v", notified, time.Since(began))

		link.Release()
		synctest.Wait()
		require.Empty(t, a.started, "a is queued again")
	})
}
