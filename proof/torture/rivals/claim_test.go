// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

func ended(l *lease) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

func nothing(context.Context) error { return nil }

func TestLeaseEndsWithoutRenewal(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var tried atomic.Int64
		l := keep(time.Now().Add(4*time.Second), 4*time.Second, func(ctx context.Context) (time.Time, error) {
			tried.Add(1)
			<-ctx.Done() // the server does not answer
			return time.Time{}, ctx.Err()
		}, nothing)
		time.Sleep(4*time.Second - 1)
		synctest.Wait()
		require.False(t, ended(l))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.True(t, ended(l))
		require.Equal(t, history.Deadline, l.Cause())
		require.Equal(t, int64(3), tried.Load(), "at 1.3 s for a second, at 2.5 s for a second, and at 3.7 s")
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, history.Deadline, l.Cause(), "a claim ends once")
	})
}

func TestLeaseLastsWhileItIsRenewed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := keep(time.Now().Add(4*time.Second), 4*time.Second, func(context.Context) (time.Time, error) {
			return time.Now().Add(4 * time.Second), nil
		}, nothing)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.False(t, ended(l))
		failed := errors.New("not deleted")
		l.release = func(context.Context) error { return failed }
		require.ErrorIs(t, l.Release(t.Context()), failed)
		require.True(t, ended(l), "also with an error")
		require.Equal(t, history.GivenUp, l.Cause())
	})
}

func TestLeaseTakenByAnotherClientEnds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := keep(time.Now().Add(4*time.Second), 4*time.Second, func(context.Context) (time.Time, error) {
			return time.Time{}, errGone
		}, nothing)
		time.Sleep(4 * time.Second / 3)
		synctest.Wait()
		require.True(t, ended(l))
		require.Equal(t, history.Expired, l.Cause())
		require.NoError(t, l.Release(t.Context()))
	})
}

func TestLeaseIsReleasedByTheEndOfItsClient(t *testing.T) {
	for _, failed := range []error{nil, errors.New("not deleted")} {
		faketime.Test(t, func(t *testing.T) {
			var released atomic.Int64
			c := new(tenant)
			c.leave() // no lease is held
			var l *lease
			l = c.has(keep(time.Now().Add(4*time.Second), 4*time.Second, func(context.Context) (time.Time, error) {
				return time.Now().Add(4 * time.Second), nil
			}, func(context.Context) error {
				require.True(t, ended(l), "the holder is notified before the release")
				released.Add(1)
				return failed
			}))
			time.Sleep(time.Hour)
			c.leave()
			require.Equal(t, history.ClientShut, l.Cause())
			require.Equal(t, failed, l.Release(t.Context()), "the result of the client's release")
			c.leave()
			require.Equal(t, int64(1), released.Load())
			require.Equal(t, history.ClientShut, l.Cause(), "a claim ends once")
		})
	}
}

func TestReleasedLeaseIsNotReleasedAgainByTheEndOfItsClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var released atomic.Int64
		c := new(tenant)
		l := c.has(keep(time.Now().Add(4*time.Second), 4*time.Second, nil, func(context.Context) error {
			released.Add(1)
			return nil
		}))
		require.NoError(t, l.Release(t.Context()))
		c.leave()
		require.Equal(t, int64(1), released.Load())
		require.Equal(t, history.GivenUp, l.Cause())
	})
}

func TestLossDuringReleaseCountsAsRelease(t *testing.T) {
	lost, released := newClaim(), newClaim()
	released.releasing.Store(true)
	for _, c := range []*claim{lost, released} {
		c.end(history.Expired)
		c.end(history.ClientShut)
		<-c.Done()
	}
	require.Equal(t, history.Expired, lost.Cause())
	require.Equal(t, history.GivenUp, released.Cause())
}

func TestFailuresHaveShortNames(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:4711", "10.1.2.3:2379"} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		require.NoError(t, err)
		require.Equal(t, "dial: connection refused", why(&net.OpError{Op: "dial", Addr: tcp, Err: errors.New("connection refused")}))
		require.Equal(t, "node # refused", why(errors.New("node "+addr+" refused")))
		require.Equal(t, "node # refused", why(errors.Join(errors.New("node "+addr+" refused"), errors.New("node 2 refused"))))
	}
}
