// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// permits returns the permits at /l/permits for a client.
func (s servers) permits(client *recipes.Client, limit int) *permits.Permits {
	s.Helper()
	p, err := permits.New(s.queue(client, "/l/permits"), limit)
	require.NoError(s, err)
	return p
}

// burstBehindFirstWaiter makes contenders of ten clients join behind the first waiter, a thousand a
// second, while so many contenders hold a permit each and there is no other. It returns how many
// listings the first waiter's client requested. Then release must let the first waiter in within limit.
func burstBehindFirstWaiter(t *testing.T, holders, joins int, limit time.Duration, release func(s servers, p *permits.Permits, held []*recipes.Claim)) (listings int) {
	t.Helper()
	crowded(t, zktest.Options{}, func(s servers) {
		holder := s.permits(s.loaded(recipes.Options{}), holders)
		var held []*recipes.Claim
		for range holders {
			c, err := holder.Claim(s.Context(), 1)
			require.NoError(s, err)
			held = append(held, c)
		}
		link := s.Link()
		counted := link.Intercept(zktest.Rule{Op: "getChildren", Below: "/l"})
		first := s.permits(s.loaded(recipes.Options{Dial: link.Dial}), holders)
		granted := make(chan error, 1)
		go func() {
			_, err := first.Claim(s.Context(), 1)
			granted <- err
		}()
		s.queued("/l/permits", holders+1, loadTimeout)
		ctx, cancel := context.WithCancel(s.Context())
		done := make(chan error)
		var clients []*permits.Permits
		for range 10 {
			clients = append(clients, s.permits(s.loaded(recipes.Options{}), holders))
		}
		for i := range joins {
			time.Sleep(time.Millisecond) // in fake time
			go func() {
				_, err := clients[i%10].Claim(ctx, 1)
				done <- err
			}()
		}
		s.queued("/l/permits", holders+1+joins, loadTimeout)
		received := int64(0)
		for _, c := range counted.Counts() {
			listings += c.Requests
			received += c.Sent
		}
		t.Logf("%d joins behind %d holders: %d listings, %d bytes", joins, holders, listings, received)
		began := time.Now()
		release(s, holder, held)
		select {
		case err := <-granted:
			require.NoError(s, err)
			require.LessOrEqual(s, time.Since(began), limit)
		case <-time.After(limit + loadTimeout):
			require.Fail(s, "the first waiter is not granted its permit")
		}
		cancel()
		for range joins {
			if err := <-done; err != nil {
				require.ErrorIs(s, err, context.Canceled)
			}
		}
	})
	return listings
}

func releaseAt(i int) func(servers, *permits.Permits, []*recipes.Claim) {
	return func(s servers, _ *permits.Permits, held []*recipes.Claim) {
		q := s.queue(s.loaded(recipes.Options{}), "/l/permits")
		require.NoError(s, q.Release(s.Context(), held[i]))
	}
}

func TestBurstOfJoinsCostsFirstWaiterOfPermitsAHandfulOfListings(t *testing.T) {
	need.NoRaceDetector(t)
	require.LessOrEqual(t, burstBehindFirstWaiter(t, 3, 1000, 0, releaseAt(0)), 4)
	// A listing of n names is at least n times PacePerMember after the last one.
	require.LessOrEqual(t, burstBehindFirstWaiter(t, 100, 1000, 200*time.Millisecond, releaseAt(50)), 40)
}

func TestFirstWaiterOfPermitsIsGrantedAfterBurstOfJoins(t *testing.T) {
	for i := range 3 {
		burstBehindFirstWaiter(t, 3, 10, 0, releaseAt(i))
	}
	burstBehindFirstWaiter(t, 3, 10, 0, func(s servers, p *permits.Permits, _ []*recipes.Claim) {
		// What Resize writes: it takes no permits to raise the limit.
		require.NoError(s, p.Resize(s.Context(), 4))
	})
}
