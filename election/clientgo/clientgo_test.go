// SPDX-License-Identifier: Apache-2.0

package clientgo_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/election/clientgo"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const timeout = 10 * time.Second

// A process runs callbacks that record their calls.
type process struct {
	link   *zktest.Link
	calls  chan string
	stop   context.CancelFunc
	result chan error
}

func start(t *testing.T, ensemble *zktest.Ensemble, id string) *process {
	t.Helper()
	p := &process{link: ensemble.Link(), calls: make(chan string, 100), result: make(chan error, 1)}
	client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: p.link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	e, err := election.New(client, "/election/controller", &election.Options{ID: id})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	callbacks := leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) { p.calls <- "started" }, // returns, and leads on
		OnStoppedLeading: func() { p.calls <- "stopped" },
		OnNewLeader:      func(identity string) { p.calls <- identity },
	}
	go func() { p.result <- clientgo.Run(ctx, e, callbacks) }()
	return p
}

// requireCalls requires these calls and no further, in any order: observers are independent.
func (p *process) requireCalls(t *testing.T, want ...string) {
	t.Helper()
	time.Sleep(timeout / 4)
	synctest.Wait()
	var got []string
	for len(p.calls) > 0 {
		got = append(got, <-p.calls)
	}
	require.ElementsMatch(t, want, got)
}

func bubble(t *testing.T, f func(t *testing.T, ensemble *zktest.Ensemble)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(t, ensemble)
	})
}

func TestCallbacksAreCalledAsByClientGo(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		a := start(t, ensemble, "a")
		a.requireCalls(t, "started", "a")
		b, c := start(t, ensemble, "b"), start(t, ensemble, "c")
		b.requireCalls(t, "a")
		c.requireCalls(t, "a")
		c.stop()
		require.NoError(t, <-c.result)
		c.requireCalls(t, "stopped")
		a.stop()
		require.NoError(t, <-a.result)
		a.requireCalls(t, "stopped")
		b.requireCalls(t, "started", "b")
		b.stop()
		require.NoError(t, <-b.result)
	})
}

func TestRunReturnsWhenItsTermIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		a := start(t, ensemble, "a")
		a.requireCalls(t, "started", "a")
		a.link.Refuse(true)
		a.link.Reset()
		err := <-a.result
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorIs(t, err, recipes.ErrDeadline)
		a.requireCalls(t, "stopped")
	})
}

func TestCallbackThatDoesNotStopEndsRunWithErrOverrun(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
			SessionTimeout: timeout, Dial: ensemble.Link().Dial, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		defer client.Close()
		e, err := election.New(client, "/election/controller", &election.Options{StopTimeout: time.Second})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		returned := make(chan struct{})
		var stopped atomic.Int32
		err = clientgo.Run(ctx, e, leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				stop()
				time.Sleep(time.Minute)
				close(returned)
			},
			OnStoppedLeading: func() { stopped.Add(1) },
		})
		require.ErrorIs(t, err, election.ErrOverrun)
		require.EqualValues(t, 1, stopped.Load())
		<-returned
	})
}

func TestMissingCallbackIsAnError(t *testing.T) {
	require.ErrorContains(t, clientgo.Run(t.Context(), nil, leaderelection.LeaderCallbacks{}), "OnStartedLeading is nil")
	callbacks := leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}}
	require.ErrorContains(t, clientgo.Run(t.Context(), nil, callbacks), "OnStoppedLeading is nil")
}
