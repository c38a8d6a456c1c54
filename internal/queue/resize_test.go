// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// lagging returns permits at two servers, the second of which lags behind: its client still reads the first limit, 3, when
// the other one has stored the second one.
func lagging(t *testing.T, second int, f func(s servers, fresh *permits.Permits, stale *recipes.Client)) {
	t.Helper()
	const first = 3
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		connect := func(server int) *recipes.Client {
			client, err := recipes.Connect(s.Context(), s.Addrs()[server-1:server], &recipes.Options{SessionTimeout: loadTimeout, Dial: s.Dial})
			require.NoError(s, err)
			s.Cleanup(func() { client.Close() })
			return client
		}
		leader, err := s.Leader(s.Context())
		require.NoError(s, err)
		follower := 1 + leader.ID()%3
		fresh, stale := s.permits(connect(leader.ID()), first), connect(follower)
		limit, err := s.permits(stale, first).Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, first, limit)
		s.Server(follower).Lag(loadTimeout / 64)
		require.NoError(s, fresh.Resize(s.Context(), second))
		f(s, fresh, stale)
	})
}

func TestResizeAtLaggingServerStoresTheLimitThatItStillReads(t *testing.T) {
	for _, second := range []int{2, 5} {
		lagging(t, second, func(s servers, fresh *permits.Permits, stale *recipes.Client) {
			require.NoError(s, s.permits(stale, 3).Resize(s.Context(), 3))
			data, _, err := s.Get("/l/permits-limit")
			require.NoError(s, err)
			require.JSONEq(s, `{"format":1,"limit":3}`, string(data))
		})
	}
}

func TestClaimAtLaggingServerIsNotRefusedBecauseOfAnEarlierLimit(t *testing.T) {
	lagging(t, 5, func(s servers, _ *permits.Permits, stale *recipes.Client) {
		p := s.permits(stale, 5)
		c, err := p.Claim(s.Context(), 5)
		require.NoError(s, err)
		require.NoError(s, s.queue(stale, "/l/permits").Release(s.Context(), c))
	})
	lagging(t, 5, func(s servers, _ *permits.Permits, stale *recipes.Client) {
		c, err := s.permits(stale, 5).Try(s.Context(), 5)
		require.NoError(s, err)
		require.NoError(s, s.queue(stale, "/l/permits").Release(s.Context(), c))
	})
	lagging(t, 5, func(s servers, _ *permits.Permits, stale *recipes.Client) {
		time.Sleep(loadTimeout / 16)
		_, err := s.permits(stale, 3).Claim(s.Context(), 1)
		wrong := (*permits.LimitError)(nil)
		require.ErrorAs(s, err, &wrong)
		require.Equal(s, 5, wrong.Stored)
	})
}

func TestPermitsWithoutALimitFollowTheStoredOne(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		client := s.loaded(recipes.Options{})
		follower := s.permits(client, 0)
		for _, call := range []func() error{
			func() error { _, err := follower.Limit(s.Context()); return err },
			func() error { _, err := follower.Claim(s.Context(), 1); return err },
			func() error { _, err := follower.Try(s.Context(), 1); return err },
			func() error { return follower.Resize(s.Context(), 4) },
		} {
			err := call()
			require.ErrorIs(s, err, permits.ErrNoLimit)
			require.ErrorContains(s, err, "/l/permits-limit: no limit is stored")
		}
		_, _, err := s.Get("/l/permits-limit")
		require.ErrorIs(s, err, zktest.ErrNoNode, "nothing was stored")

		own := s.permits(s.loaded(recipes.Options{}), 3)
		limit, err := own.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 3, limit)
		c, err := follower.Claim(s.Context(), 3)
		require.NoError(s, err)
		require.NoError(s, s.queue(client, "/l/permits").Release(s.Context(), c))
		require.NoError(s, follower.Resize(s.Context(), 4))
		synctest.Wait() // its watch has fired
		limit, err = own.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 4, limit)
	})
}

func TestPermitsWithoutALimitAtLaggingServerFindTheStoredOne(t *testing.T) {
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		leader, err := s.Leader(s.Context())
		require.NoError(s, err)
		follower := 1 + leader.ID()%3
		stale, err := recipes.Connect(s.Context(), s.Addrs()[follower-1:follower], &recipes.Options{SessionTimeout: loadTimeout, Dial: s.Dial})
		require.NoError(s, err)
		s.Cleanup(func() { stale.Close() })
		s.Server(follower).Lag(loadTimeout / 64)
		_, err = s.permits(s.loaded(recipes.Options{}), 3).Limit(s.Context())
		require.NoError(s, err)
		limit, err := s.permits(stale, 0).Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 3, limit)
	})
}

// A Resize that another one overtakes decides by the limit that it finds then.
func TestResizesAtTheSameTimeEndWithOneOfTheirLimitsOrAreRefusedAsBusy(t *testing.T) {
	overtaken := 0
	for offset := time.Duration(0); offset < 12*time.Millisecond; offset += time.Millisecond / 4 {
		crowded(t, zktest.Options{}, func(s servers) {
			connect := func() *recipes.Client {
				link := s.Link()
				link.Delay(time.Millisecond)
				return s.loaded(recipes.Options{Dial: link.Dial})
			}
			a, b := s.permits(connect(), 4), s.permits(connect(), 4)
			_, err := b.Limit(s.Context()) // so that b sends its first write before a
			require.NoError(s, err)
			lowered := make(chan error)
			go func() { lowered <- a.Resize(s.Context(), 2) }()
			time.Sleep(offset)
			errs := []error{b.Resize(s.Context(), 1), <-lowered}
			limit, err := b.Limit(s.Context())
			require.NoError(s, err)
			for i, want := range []int{1, 2} {
				if errs[i] != nil {
					busy := (*recipes.BusyError)(nil)
					require.ErrorAs(s, errs[i], &busy, "after %v, resize to %d", offset, want)
				}
			}
			switch {
			case errs[0] == nil && errs[1] == nil:
				overtaken++
				require.Contains(s, []int{1, 2}, limit)
			case errs[0] == nil:
				require.Equal(s, 1, limit)
			case errs[1] == nil:
				require.Equal(s, 2, limit)
			}
		})
	}
	require.Positive(t, overtaken)
}
