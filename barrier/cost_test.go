// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A cost is what one round takes of each member.
type cost struct {
	enter, leave float64 // requests
	listings     int     // of all members together
}

// rounds returns what the first round, and what a later one, takes with n members, each with its own client. They come at the
// same instant, or one after the other.
func rounds(t *testing.T, n int, apart time.Duration) (first, later cost) {
	t.Helper()
	bubble(t, zktest.Options{}, func(s servers) {
		var all []*process
		for range n {
			all = append(all, s.process())
		}
		counted := s.Intercept(zktest.Rule{When: func(r zktest.Request) bool { return r.Op != "ping" }})
		listed := s.Intercept(zktest.Rule{Op: "getChildren"})
		one := func() (c cost) {
			began, listings := counted.Fired(), listed.Fired()
			var waiting []entering
			for _, p := range all {
				waiting = append(waiting, p.enter(s.Context(), n))
				time.Sleep(apart)
			}
			var entered []*barrier.Round
			for _, e := range waiting {
				entered = append(entered, e.entered())
			}
			c.enter, c.listings = float64(counted.Fired()-began)/float64(n), listed.Fired()-listings
			began = counted.Fired()
			var leaving []<-chan error
			for _, r := range entered {
				leaving = append(leaving, leave(r))
				time.Sleep(apart)
			}
			for _, l := range leaving {
				s.mustReturn(l)
			}
			c.leave = float64(counted.Fired()-began) / float64(n)
			return c
		}
		first, later = one(), one()
	})
	return first, later
}

func TestRoundTakesAsManyRequestsOfAMemberAmongMany(t *testing.T) {
	need.NoRaceDetector(t)
	for _, apart := range []time.Duration{0, 10 * time.Millisecond} {
		for _, n := range []int{10, 100} {
			first, later := rounds(t, n, apart)
			t.Logf("%d members, %v apart: %+v, later %+v", n, apart, first, later)
			require.LessOrEqual(t, first.enter, 15., "one of them to refuse the path of a queue")
			require.LessOrEqual(t, later.enter, 7.)
			require.LessOrEqual(t, later.leave, 4.)
			require.LessOrEqual(t, first.listings+later.listings, 2+2, "one that may complete the round lists")
		}
	}
}

func TestProcessesBeyondTheSizePayForEachRoundThatBeginsWithoutThem(t *testing.T) {
	const processes = 40
	bubble(t, zktest.Options{}, func(s servers) {
		counted := s.Intercept(zktest.Rule{When: func(r zktest.Request) bool { return r.Op != "ping" }})
		var ended []<-chan error
		for range processes {
			d := s.process().double(2)
			ended = append(ended, background(func() error {
				r, err := d.Enter(s.Context())
				if err != nil {
					return err
				}
				return r.Leave(s.Context())
			}))
		}
		for _, e := range ended {
			s.mustReturn(e)
		}
		each := counted.Fired() / processes
		t.Logf("%d processes, 2 at a time: %d requests each", processes, each)
		require.LessOrEqual(s, each, 7*processes/2+14, "as many as to enter, in each round")
	})
}
