// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// isOwn reports whether the ZooKeeper client sends the request by itself.
func isOwn(r zktest.Request) bool { return r.Op == "connect" || r.Op == "ping" }

// requireGranted requires that another client is granted the path within limit.
func (s servers) requireGranted(client *recipes.Client, path string, limit time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	began := time.Now()
	claim, err := s.queue(client, path).Claim(ctx)
	require.NoError(s, err, "another client waits for %s", path)
	s.Logf("granted after %.2f T", time.Since(began).Seconds()/loadTimeout.Seconds())
	require.NoError(s, s.queue(client, path).Release(s.Context(), claim))
}

// A tunnel whose MTU is too small passes handshakes and pings, and both keep the session alive.
func TestPathThatPassesOnlyHandshakesAndPingsDoesNotKeepTheNodesOfItsSession(t *testing.T) {
	need.NoRaceDetector(t)
	for name, rule := range map[string]zktest.Rule{
		"requests are dropped":      {Hold: zktest.ToServer},
		"answers are dropped":       {Hold: zktest.ToClient},
		"requests end connections":  {Lose: zktest.ToServer},
		"large packets are dropped": {Hold: zktest.ToServer, When: func(r zktest.Request) bool { return r.Size > 1400 }},
	} {
		for _, count := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, servers %d", name, count), func(t *testing.T) {
				crowded(t, zktest.Options{Servers: count}, func(s servers) {
					link := s.Link()
					client := s.loaded(recipes.Options{Dial: link.Dial})
					claims := s.holdsMany(client, 100)
					time.Sleep(2 * loadTimeout)
					if rule.When == nil {
						rule.When = func(r zktest.Request) bool { return !isOwn(r) }
					}
					faulty := link.Intercept(rule)
					s.requireGranted(s.loaded(recipes.Options{}), "/held/0", 5*loadTimeout)
					require.ErrorIs(s, claims[0].Err(), recipes.ErrLost)
					faulty.Remove()
				})
			})
		}
	}
}

// A waiter blocks those behind it, and has no deadline by which its client must give up.
func TestWaiterWhosePathPassesOnlyHandshakesAndPingsDoesNotBlockTheQueue(t *testing.T) {
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		first := s.loaded(recipes.Options{})
		claim := s.holds(first, "/a")
		link := s.Link()
		waiter := s.loaded(recipes.Options{Dial: link.Dial})
		go func() { _, _ = s.queue(waiter, "/a").Claim(s.Context()) }()
		s.queued("/a", 2, loadTimeout)
		time.Sleep(2 * loadTimeout)
		link.Intercept(zktest.Rule{Hold: zktest.ToServer, When: func(r zktest.Request) bool { return !isOwn(r) }})
		time.Sleep(loadTimeout / 3)
		require.NoError(s, s.queue(first, "/a").Release(s.Context(), claim))
		s.requireGranted(first, "/a", 5*loadTimeout)
	})
}

// Only requests that were sent count: a session that needs nothing sends none.
func TestSessionThatAsksForNothingIsKept(t *testing.T) {
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		link := s.Link()
		client := s.loaded(recipes.Options{Dial: link.Dial})
		s.register(client, "one")
		id := client.SessionID()
		held := link.Intercept(zktest.Rule{Hold: zktest.ToServer, When: func(r zktest.Request) bool { return !isOwn(r) }})
		_, err := s.queue(client, "/b").Front(s.within(loadTimeout / 4))
		require.ErrorIs(s, err, context.DeadlineExceeded)
		held.Remove()
		link.Reset() // the request was sent, and never answered
		time.Sleep(20 * loadTimeout)
		claim := s.holds(client, "/b")
		time.Sleep(20 * loadTimeout)
		require.NoError(s, claim.Err())
		require.Equal(s, id, client.SessionID())
	})
}
