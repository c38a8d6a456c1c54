// SPDX-License-Identifier: Apache-2.0

package worker_test

import (
	"context"
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

// A worker is what would be a process elsewhere: a client with a session of its own, which
// works while it leads.
type worker struct {
	client  *recipes.Client
	started chan fencing.Token // at the beginning of each term
	stopped chan error         // at its end, with the reason
}

// work stands for yours. It may last as long as its context, and no longer.
func (w *worker) work(ctx context.Context, term *election.Term) error {
	w.started <- term.Token()
	<-ctx.Done()
	w.stopped <- context.Cause(ctx)
	return context.Cause(ctx)
}

// start starts a worker, which ends with the test.
func start(t *testing.T, id string, servers []string, opts *recipes.Options) *worker {
	t.Helper()
	client, err := recipes.Connect(t.Context(), servers, opts)
	require.NoError(t, err)
	sweeper, err := election.New(client, "/election/sweeper", &election.Options{ID: id})
	require.NoError(t, err)
	w := &worker{client: client, started: make(chan fencing.Token, 10), stopped: make(chan error, 10)}
	ended := make(chan error, 1)
	go func() { ended <- sweeper.Run(t.Context(), w.work) }() // which is done when the test is
	t.Cleanup(func() {
		if err := <-ended; err != nil { // nil: every node of it is gone
			require.ErrorIs(t, err, recipes.ErrUncertain) // one that is still cut off cannot know
		}
		client.Close()
	})
	return w
}

func TestWorkMovesWhenTheLeaderIsExpired(t *testing.T) {
	srv := zktest.Start(t)
	a := start(t, "a", srv.Servers(), nil)
	first := <-a.started
	b := start(t, "b", srv.Servers(), nil)
	require.Eventually(t, func() bool {
		candidates, err := srv.Children("/election/sweeper")
		return err == nil && len(candidates) == 2
	}, time.Minute, time.Millisecond, "b is in line")

	require.NoError(t, srv.Expire(a.client.SessionID()))

	require.ErrorIs(t, <-a.stopped, recipes.ErrSessionExpired)
	second := <-b.started
	var gate fencing.Gate // of what your leader writes to
	require.NoError(t, gate.Admit(second))
	require.ErrorIs(t, gate.Admit(first), fencing.ErrStale)
}

func TestWorkStopsBeforeAnotherTakesOver(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with two, Go 1.26's race detector can crash in a bubble
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.StartWith(t, &zktest.Options{Servers: 3, InMemory: true})
		link := srv.Link() // a's way to the servers, and nobody else's
		a := start(t, "a", srv.Servers(), &recipes.Options{Dial: link.Dial})
		first := <-a.started
		b := start(t, "b", srv.Servers(), &recipes.Options{Dial: srv.Dial})
		synctest.Wait() // until b is in line

		cut := time.Now()
		link.Hold(zktest.Both) // nothing arrives any more, and nobody is told

		require.ErrorIs(t, <-a.stopped, recipes.ErrDeadline)
		told := time.Since(cut)
		require.Empty(t, b.started, "a works until then")
		require.Greater(t, <-b.started, first)
		t.Logf("cut off, a stops after %v; b starts after %v", told, time.Since(cut))

		link.Release()
		synctest.Wait()
		require.Empty(t, a.started, "back again, a waits for its turn")
	})
}
