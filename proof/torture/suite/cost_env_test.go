// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	// quietTimeout is a session timeout in whose first part each measurement ends, so that no
	// heartbeat and no ping is counted.
	quietTimeout = 24 * time.Hour

	// watchTimeout is the session timeout of a client that follows a group: it reads at most once in T/48.
	watchTimeout = time.Minute
)

// A costs counts the requests of clients, each of which stands for one process, by the counters of
// their server.
type costs struct {
	*env
	clients []*costClient  // the first one holds what the others wait for
	replica *lease.Replica // of the first one, if it serves all callers
}

// A costClient is a client that reports when it begins to wait.
type costClient struct {
	*recipes.Client
	waiting chan struct{}
}

// startCounting starts the server that counts.
func startCounting(tb testing.TB) *docker.Ensemble {
	tb.Helper()
	return start(tb, docker.Options{
		Servers: 1,
		Config:  []string{fmt.Sprintf("maxSessionTimeout=%d", quietTimeout.Milliseconds())},
		// An empty queue is not deleted between two steps.
		Properties: map[string]string{"znode.container.checkIntervalMs": "3600000"},
	})
}

// newCosts returns n+1 clients of the server that counts.
func newCosts(tb testing.TB, server *docker.Ensemble, n int) *costs {
	tb.Helper()
	s := &costs{env: newEnv(tb, server)}
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Minute)
	tb.Cleanup(cancel)
	s.Ctx = ctx
	s.clients = make([]*costClient, n+1)
	var connecting sync.WaitGroup
	turns := make(chan struct{}, 16)
	for i := range s.clients {
		turns <- struct{}{}
		connecting.Go(func() {
			s.clients[i] = s.costClient(quietTimeout)
			<-turns
		})
	}
	connecting.Wait()
	return s
}

func (s *costs) costClient(timeout time.Duration) *costClient {
	s.T.Helper()
	c := &costClient{waiting: make(chan struct{}, 100)}
	c.Client = s.Connect(recipes.Options{SessionTimeout: timeout, Trace: &recipes.Trace{
		Waiting: func(recipes.QueueEvent) {
			select {
			case c.waiting <- struct{}{}:
			default: // the test does not ask
			}
		},
	}})
	return c
}

// received returns how many packets the server has received from the clients.
func (s *costs) received(clients ...*costClient) (n int) {
	s.T.Helper()
	var answer string
	s.Eventually("an answer to cons", func() (answered bool) { // a busy server can take too long
		var err error
		answer, err = s.ensemble.Servers()[0].FourLetter(s.Ctx, "cons")
		return err == nil
	})
	bySession := make(map[string]int)
	for line := range strings.Lines(answer) {
		if m := cons.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			require.NoError(s.T, err)
			bySession[m[2]] = n
		}
	}
	for _, c := range clients {
		count, found := bySession[strconv.FormatUint(uint64(c.SessionID()), 16)]
		require.True(s.T, found, "no connection of session 0x%x", c.SessionID())
		n += count
	}
	return n
}

// settled returns received when several answers in a row were the same. A request that comes later is
// counted to the next step.
func (s *costs) settled(clients ...*costClient) int {
	s.T.Helper()
	last, same := -1, 0
	s.Eventually("an end of requests", func() bool {
		switch n := s.received(clients...); n {
		case last:
			same++
		default:
			last, same = n, 0
		}
		return same == 6
	})
	return last
}

// cost returns how many requests of all clients f causes, per unit.
func (s *costs) cost(units int, f func()) float64 {
	s.T.Helper()
	before := s.settled(s.clients...)
	f()
	return float64(s.settled(s.clients...)-before) / float64(units)
}

// A taking acquires something, and returns how it is released.
type taking func(ctx context.Context) (release func(context.Context) error, err error)

// A queued is a recipe with waiters, which is a row of the first table in docs/performance.md.
type queued struct {
	name  string
	alone bool // it never waits
	of    func(s *costs, c *costClient) taking
	// first is of for the holder for which all wait, if it takes something else.
	first func(s *costs, c *costClient) taking
	// untraced is the name of the queue if no trace reports that a client waits. Then all join at the
	// same time.
	untraced string
}

// free returns what the recipe costs without other contenders: to acquire, and to release.
func (q queued) free(s *costs) []float64 {
	s.T.Helper()
	take := q.of(s, s.clients[0])
	s.released(s.taken(take)) // the path is known from here on
	var release func(context.Context) error
	acquire := s.cost(1, func() { release = s.taken(take) })
	return []float64{acquire, s.cost(1, func() { s.released(release) })}
}

// crowded returns what it costs with waiters, each of them: to join and begin to wait, and to be
// granted and release, which is a hand-off.
func (q queued) crowded(s *costs) []float64 {
	s.T.Helper()
	first := q.first
	if first == nil {
		first = q.of
	}
	hold := first(s, s.clients[0])
	s.released(s.taken(hold))
	waiters := s.clients[1:]
	takes := make([]taking, len(waiters))
	for i, c := range waiters {
		takes[i] = q.of(s, c)
		s.released(s.taken(takes[i]))
		for len(c.waiting) > 0 {
			<-c.waiting
		}
	}
	release := s.taken(hold)
	var running sync.WaitGroup
	defer running.Wait()
	join := s.cost(len(waiters), func() {
		for i, c := range waiters {
			running.Go(func() {
				release, err := takes[i](s.Ctx)
				if err == nil {
					err = release(s.Ctx)
				}
				if err != nil {
					s.T.Error(err)
				}
			})
			if q.untraced == "" {
				await(s.env, c.waiting)
			}
		}
		if q.untraced != "" {
			s.Waiting(q.untraced, 1+len(waiters))
		}
	})
	return []float64{join, s.cost(len(waiters), func() {
		s.released(release)
		running.Wait()
	}) - s.lastRelease(q, len(waiters))}
}

// lastRelease returns the part of one release in the cost of each waiter: n hand-offs follow one
// another, and the release of the last waiter belongs to none.
func (s *costs) lastRelease(q queued, n int) float64 { return q.free(s)[1] / float64(n) }

func (s *costs) taken(take taking) func(context.Context) error {
	s.T.Helper()
	release, err := take(s.Ctx)
	require.NoError(s.T, err)
	return release
}

func (s *costs) released(release func(context.Context) error) {
	s.T.Helper()
	require.NoError(s.T, release(s.Ctx))
}

// show returns a number of requests as the table has it.
func show(requests float64) string {
	return strconv.FormatFloat(math.Round(requests*10)/10, 'f', -1, 64)
}
