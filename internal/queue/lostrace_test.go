// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// loser returns a queue whose client loses races: before each of its joins, which rule counts, winner runs with the queue of another
// client.
func (s servers) loser(winner func(*queue.Queue)) (*queue.Queue, *zktest.Interceptor) {
	s.Helper()
	link := s.Link()
	own, other := s.queue(s.loaded(recipes.Options{Dial: link.Dial}), "/l/a"), s.queue(s.loaded(recipes.Options{}), "/l/a")
	for _, q := range []*queue.Queue{own, other} { // so that both know the path
		s.take(q)()
	}
	return own, link.Intercept(zktest.Rule{Op: "multi", Below: "/l/a", Before: func(zktest.Request) { winner(other) }})
}

// take takes the claim of a queue, and returns its release.
func (s servers) take(q *queue.Queue) func() {
	c, err := q.Claim(s.Context())
	if err != nil {
		s.Errorf("claim: %v", err)
		return func() {}
	}
	return func() {
		if err := q.Release(s.Context(), c); err != nil {
			s.Errorf("release: %v", err)
		}
	}
}

func TestTryReturnsBusyErrorAfterTheSecondLostRace(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		own, joins := s.loser(func(other *queue.Queue) { s.take(other)() })
		_, err := own.Try(s.Context())
		busy := (*recipes.BusyError)(nil)
		require.ErrorAs(s, err, &busy)
		require.Empty(s, busy.Front, "it has left")
		require.EqualError(s, err, "/l/a was taken by other contenders during the call, which have left")
		require.Equal(s, 2, joins.Fired())
		joins.Remove()
		s.queued("/l/a", 0, 0)
	})
}

func TestTryNamesTheContenderThatWonTheRaces(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		release, won := func() {}, 0
		own, joins := s.loser(func(other *queue.Queue) {
			release()
			release = s.take(other)
			won++
		})
		_, err := own.Try(s.Context())
		busy := (*recipes.BusyError)(nil)
		require.ErrorAs(s, err, &busy)
		require.NotEmpty(s, busy.Front.Name)
		require.Equal(s, 1, won, "the listing after the first lost race shows it")
		joins.Remove()
		release()
	})
}

// A race for permits that is lost does not show that they were taken.
func TestTryThatLosesRacesGetsPermitsThatAreFree(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		var others []func()
		own, joins := s.loser(func(other *queue.Queue) {
			if len(others) == 3 {
				return // it is the transaction that marks the node
			}
			p, err := permits.New(other, 5)
			if err != nil {
				s.Errorf("permits: %v", err)
				return
			}
			c, err := p.Claim(s.Context(), 1)
			if err != nil {
				s.Errorf("claim: %v", err)
				return
			}
			others = append(others, func() { require.NoError(s, other.Release(s.Context(), c)) })
		})
		p, err := permits.New(own, 5)
		require.NoError(s, err)
		c, err := p.Try(s.Context(), 2)
		require.NoError(s, err)
		require.Len(s, others, 3)
		joins.Remove()
		require.NoError(s, own.Release(s.Context(), c))
		for _, release := range others {
			release()
		}
		s.queued("/l/a", 0, 0)
	})
}

func TestTryThatLosesRacesForPermitsEndsAndLeavesNoNode(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		release, lost := func() {}, 0
		own, joins := s.loser(func(other *queue.Queue) {
			switch lost++; lost {
			case 1, 2:
				s.take(other)()
			case 3:
				release = s.take(other) // which counts as all permits
			}
		})
		p, err := permits.New(own, 5)
		require.NoError(s, err)
		_, err = p.Try(s.Context(), 1)
		busy := (*recipes.BusyError)(nil)
		require.ErrorAs(s, err, &busy)
		require.NotEmpty(s, busy.Front.Name)
		require.Equal(s, 5, busy.Taken)
		require.Equal(s, 3, lost)
		joins.Remove()
		s.queued("/l/a", 1, 0)
		release()
	})
}

// Without a bound, one call took up to 1,328 round trips.
func TestTriesOfManyClientsTakeFewRoundTripsEach(t *testing.T) {
	need.NoRaceDetector(t)
	const (
		clients   = 32
		roundTrip = 20 * time.Millisecond
	)
	tries := map[string]func(s servers, q *queue.Queue) func() (*recipes.Claim, error){
		"claim": func(s servers, q *queue.Queue) func() (*recipes.Claim, error) {
			return func() (*recipes.Claim, error) { return q.Try(s.Context()) }
		},
		"permits": func(s servers, q *queue.Queue) func() (*recipes.Claim, error) {
			p, err := permits.New(q, 2)
			require.NoError(s, err)
			return func() (*recipes.Claim, error) { return p.Try(s.Context(), 1) }
		},
	}
	for name, of := range tries {
		t.Run(name, func(t *testing.T) {
			crowded(t, zktest.Options{}, func(s servers) {
				var (
					mu      sync.Mutex
					longest time.Duration
					grants  int
				)
				var running sync.WaitGroup
				began := time.Now()
				for range clients {
					link := s.Link()
					link.Delay(roundTrip / 2)
					q := s.queue(s.loaded(recipes.Options{Dial: link.Dial}), "/l/a")
					try := of(s, q)
					running.Go(func() {
						for first := true; time.Since(began) < 3*time.Second; first = false {
							called := time.Now()
							c, err := try()
							took := time.Since(called)
							if err != nil && !errors.As(err, new(*recipes.BusyError)) {
								s.Errorf("try: %v", err)
								return
							}
							mu.Lock()
							if !first { // which creates the path
								longest = max(longest, took)
							}
							if err == nil {
								grants++
							}
							mu.Unlock()
							if err == nil {
								time.Sleep(time.Millisecond)
								if err := q.Release(s.Context(), c); err != nil {
									s.Errorf("release: %v", err)
								}
							}
						}
					})
				}
				running.Wait()
				s.Logf("at most %d round trips, %d grants", longest/roundTrip, grants)
				require.LessOrEqual(s, longest, 19*roundTrip)
				require.Greater(s, grants, 30)
				s.queued("/l/a", 0, 0)
			})
		})
	}
}
