// SPDX-License-Identifier: Apache-2.0

package clientgo_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/election/clientgo"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An elector runs client-go's elector with a lock of an election.
type elector struct {
	link     *zktest.Link
	client   *recipes.Client
	election *election.Election
	started  chan struct{}   // client-go's callback has been called
	work     context.Context // of the leader
	lock     chan *clientgo.Lock
	stop     context.CancelFunc
	result   chan error
}

// startElector starts an elector whose f takes a second to return after its context is done.
func startElector(t *testing.T, ensemble *zktest.Ensemble, id string, opts election.Options) *elector {
	t.Helper()
	e := &elector{link: ensemble.Link(), started: make(chan struct{}), lock: make(chan *clientgo.Lock, 1), result: make(chan error, 1)}
	var err error
	e.client, err = recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: e.link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { e.client.Close() })
	opts.Owner = id
	e.election, err = election.New(e.client, "/election/controller", &opts)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	e.stop = stop
	go func() {
		e.result <- clientgo.WithLock(ctx, e.election, id, func(ctx context.Context, lock *clientgo.Lock) error {
			e.work = lock.Context()
			e.lock <- lock
			config := leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { close(e.started) },
					OnStoppedLeading: func() { time.Sleep(time.Second) },
				},
			}
			elector, err := leaderelection.NewLeaderElector(config)
			if err == nil {
				elector.Run(ctx)
			}
			return err
		})
	}()
	return e
}

func (e *elector) leads(t *testing.T) {
	t.Helper()
	select {
	case <-e.started:
	case <-time.After(10 * time.Second):
		require.Fail(t, "client-go's elector has not found the lock free")
	}
}

func (e *elector) waits(t *testing.T, during time.Duration) {
	t.Helper()
	select {
	case <-e.started:
		require.Fail(t, "two electors lead")
	case <-time.After(during):
	}
}

func TestElectorOfClientGoLeadsWhenElectionGrantsTerm(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		a := startElector(t, ensemble, "a", election.Options{})
		a.leads(t)
		b := startElector(t, ensemble, "b", election.Options{})
		b.waits(t, time.Minute) // four times LeaseDuration
		record, _, err := (<-b.lock).Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", record.HolderIdentity)
		require.Greater(t, record.LeaseDurationSeconds, 1<<30, "an elector tries to take a lease that was not renewed")

		a.stop()
		b.waits(t, time.Second-time.Millisecond) // f of a has not returned
		require.NoError(t, a.work.Err(), "no term was lost")
		b.leads(t)
		require.NoError(t, <-a.result)
		b.stop()
		require.NoError(t, <-b.result)
	})
}

func TestWorkEndsWhenTermOfLockIsLostAndNotAtRenewDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		a := startElector(t, ensemble, "a", election.Options{})
		a.leads(t)
		b := startElector(t, ensemble, "b", election.Options{})
		synctest.Wait()
		began := time.Now()
		a.link.Refuse(true)
		a.link.Reset()
		select {
		case <-a.work.Done():
		case <-b.started:
			require.Fail(t, "two electors lead")
		}
		require.LessOrEqual(t, time.Since(began), timeout*3/4)
		require.ErrorIs(t, context.Cause(a.work), recipes.ErrLost)
		require.ErrorIs(t, <-a.result, recipes.ErrLost)
		b.leads(t)
		b.stop()
		require.NoError(t, <-b.result)
	})
}

func TestElectorWithoutTermDoesNotTakeLock(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		a := startElector(t, ensemble, "same", election.Options{})
		a.leads(t)
		b := startElector(t, ensemble, "same", election.Options{})
		b.waits(t, time.Minute)
		lock := <-b.lock
		record, _, err := lock.Get(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, lock.Identity(), record.HolderIdentity, "an elector renews what it holds")
		require.ErrorContains(t, lock.Update(t.Context(), *record), "/election/controller: this candidate does not lead")
		require.Error(t, lock.Create(t.Context(), *record))
		b.stop()
		require.NoError(t, <-b.result)
		a.stop()
		require.NoError(t, <-a.result)
		names, err := ensemble.Children("/election/controller")
		require.NoError(t, err)
		require.Empty(t, names)
	})
}

func TestUnhealthyLeaderGivesLockUpAfterItsWork(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		sick := make(chan struct{})
		a := startElector(t, ensemble, "a", election.Options{Health: func(context.Context) error {
			select {
			case <-sick:
				return errors.New("disk full")
			default:
				return nil
			}
		}})
		a.leads(t)
		b := startElector(t, ensemble, "b", election.Options{})
		synctest.Wait()
		close(sick)
		<-a.work.Done()
		b.waits(t, time.Second-time.Millisecond) // f of a has not returned
		b.leads(t)
		require.ErrorIs(t, <-a.result, election.ErrUnhealthy)
		b.stop()
		require.NoError(t, <-b.result)
	})
}

func TestLockThatCannotBeWonEndsItsFunction(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		a := startElector(t, ensemble, "a", election.Options{})
		a.leads(t)
		b := startElector(t, ensemble, "b", election.Options{})
		b.waits(t, time.Second)
		b.client.Close()
		require.ErrorIs(t, <-b.result, recipes.ErrClosed)
		a.stop()
		require.NoError(t, <-a.result)
	})
}

func TestFunctionThatAsksForNoLockIsNoCandidate(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble) {
		a := startElector(t, ensemble, "a", election.Options{})
		a.leads(t)
		failed := errors.New("no manager")
		err := clientgo.WithLock(t.Context(), a.election, "b", func(context.Context, *clientgo.Lock) error {
			time.Sleep(time.Minute)
			names, err := ensemble.Children("/election/controller")
			require.NoError(t, err)
			require.Len(t, names, 1)
			return failed
		})
		require.ErrorIs(t, err, failed)
		a.stop()
		require.NoError(t, <-a.result)
	})
}
