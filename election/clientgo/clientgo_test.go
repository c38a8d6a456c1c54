// SPDX-License-Identifier: Apache-2.0

package clientgo_test

import (
	"context"
	"log/slog"
	"runtime"
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
	t.Cleanup(func() { client.Close() })
	e, err := election.New(client, "/election/controller", &election.Options{Owner: id})
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

// A controller runs callbacks that report their calls.
type controller struct {
	link             *zktest.Link
	client           *recipes.Client
	started, stopped chan struct{}
	result           chan error
	stop             context.CancelFunc
}

// newController starts a controller whose OnStoppedLeading does not return while exit is open, as if it had exited the
// process.
func newController(t *testing.T, ensemble *zktest.Ensemble, config leaderelection.LeaderElectionConfig, work func(context.Context),
	exit <-chan struct{},
) *controller {
	t.Helper()
	c := &controller{
		link: ensemble.Link(), started: make(chan struct{}), stopped: make(chan struct{}), result: make(chan error, 1),
	}
	var err error
	c.client, err = recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: c.link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { c.client.Close() })
	e, err := election.New(c.client, "/election/controller", nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			close(c.started)
			work(ctx)
		},
		OnStoppedLeading: func() {
			close(c.stopped)
			<-exit
		},
	}
	go func() { c.result <- clientgo.RunConfig(ctx, e, config) }()
	return c
}

func untilDone(ctx context.Context) { <-ctx.Done() }

var releases, keeps = leaderelection.LeaderElectionConfig{ReleaseOnCancel: true}, leaderelection.LeaderElectionConfig{}

func TestProcessThatExitsWhenStoppedHasResigned(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		exit := make(chan struct{})
		work := func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second) // to stop
		}
		a := newController(t, ensemble, releases, work, exit)
		<-a.started
		b := newController(t, ensemble, releases, untilDone, closed())
		synctest.Wait()
		began := time.Now()
		a.stop()
		<-a.stopped
		require.Equal(t, time.Second, time.Since(began).Truncate(time.Second), "after the work")
		a.link.Refuse(true) // the process has exited
		a.link.Reset()
		<-b.started
		require.Less(t, time.Since(began), 2*time.Second)
		close(exit)
		require.NoError(t, <-a.result)
		b.stop()
		require.NoError(t, <-b.result)
	})
}

func TestLossIsReportedWhileWorkStops(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		for _, stopFirst := range []bool{false, true} {
			release := make(chan struct{})
			c := newController(t, ensemble, releases, func(context.Context) { <-release }, closed())
			<-c.started
			if stopFirst {
				c.stop()
				synctest.Wait()
			}
			began := time.Now()
			c.link.Refuse(true)
			c.link.Reset()
			<-c.stopped
			require.LessOrEqual(t, time.Since(began), timeout*3/4, "not when the work returns")
			close(release)
			require.ErrorIs(t, <-c.result, recipes.ErrLost)
			c.link.Refuse(false)
			c.client.Close()
		}
	})
}

// As the example of client-go: its work never returns.
func TestWorkThatDoesNotReturnDelaysTheExitForTenSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		release := make(chan struct{})
		c := newController(t, ensemble, releases, func(context.Context) { <-release }, closed())
		<-c.started
		began := time.Now()
		c.stop()
		<-c.stopped
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Contains(t, ensemble.Dump(), "/election/controller/", "the work goes on")
		names, err := ensemble.Children("/election/controller")
		require.NoError(t, err)
		require.Len(t, names, 1, "no other candidate may lead while the work runs")
		close(release)
		require.NoError(t, <-c.result)
	})
}

func TestWithoutReleaseOnCancelProcessExitsBeforeItResigns(t *testing.T) {
	for _, returns := range []bool{false, true} {
		bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
			exit, release := make(chan struct{}), make(chan struct{})
			work := func(context.Context) {
				if !returns {
					<-release
				}
			}
			c := newController(t, ensemble, keeps, work, exit)
			<-c.started
			synctest.Wait()
			began := time.Now()
			c.stop()
			<-c.stopped
			require.Zero(t, time.Since(began))
			time.Sleep(timeout / 2)
			names, err := ensemble.Children("/election/controller")
			require.NoError(t, err)
			require.Len(t, names, 1, "what the work has started runs until the process has exited")
			close(exit)
			close(release)
			require.NoError(t, <-c.result)
		})
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
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

// As t.FailNow does.
func TestRunReturnsAlthoughOnStoppedLeadingEndsItsGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		link := ensemble.Link()
		client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
			SessionTimeout: timeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		defer client.Close()
		e, err := election.New(client, "/election/controller", nil)
		require.NoError(t, err)
		stopped := make(chan struct{})
		result := make(chan error, 1)
		go func() {
			result <- clientgo.Run(t.Context(), e, leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {
					link.Refuse(true)
					link.Reset()
					<-stopped
				},
				OnStoppedLeading: func() {
					close(stopped)
					runtime.Goexit()
				},
			})
		}()
		select {
		case err := <-result:
			require.ErrorIs(t, err, recipes.ErrLost)
		case <-time.After(10 * timeout):
			require.Fail(t, "not returned")
		}
	})
}

func TestMissingCallbackIsAnError(t *testing.T) {
	require.ErrorContains(t, clientgo.Run(t.Context(), nil, leaderelection.LeaderCallbacks{}), "OnStartedLeading is nil")
	callbacks := leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}}
	require.ErrorContains(t, clientgo.Run(t.Context(), nil, callbacks), "OnStoppedLeading is nil")
}
