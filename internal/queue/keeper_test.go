// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// newKeeper returns an ensemble that behaves as ClickHouse Keeper.
func newKeeper(t *testing.T) *ensemble {
	t.Helper()
	return startEnsemble(t, zktest.Options{Servers: 3, InMemory: true, Personality: zktest.Keeper})
}

// isContainer reports whether the node at path, which has had a child and has none, is a container. It deletes one.
func (s *ensemble) isContainer(path string) bool {
	s.t.Helper()
	_, _, err := s.Get(path)
	require.NoError(s.t, err)
	s.CheckContainers()
	_, _, err = s.Get(path)
	return errors.Is(err, zktest.ErrNoNode)
}

// claimAndRelease claims the queue at path, and releases the claim.
func (s *ensemble) claimAndRelease(client *recipes.Client, path string) {
	s.t.Helper()
	queue, err := New(client, path, nil)
	require.NoError(s.t, err)
	ctx, cancel := context.WithTimeout(s.t.Context(), 100*testTimeout)
	defer cancel()
	claim, err := queue.Claim(ctx)
	require.NoError(s.t, err)
	require.NoError(s.t, queue.Release(s.t.Context(), claim))
}

// The server gives the client another session, and the nodes go with the one before at its timeout.
func TestHandshakeAnsweredWithAnotherSessionEndsTheSession(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newKeeper(t)
		queue := newQueue(t, s.connect(s.options()), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*testTimeout)
		defer cancel()
		claim, err := queue.Claim(ctx)
		require.NoError(t, err)
		waiter := newQueue(t, s.connect(withDial(s.options(), s.Dial)), nil)
		granted := make(chan *recipes.Claim, 1)
		go func() {
			next, err := waiter.Claim(t.Context())
			if err == nil {
				granted <- next
			}
		}()
		time.Sleep(testTimeout)
		require.NoError(t, claim.Err())

		began := time.Now()
		s.link.Reset()
		<-claim.Done()
		require.ErrorIs(t, claim.Err(), recipes.ErrSessionExpired)
		require.Less(t, time.Since(began), testTimeout/24)
		next := <-granted
		require.Greater(t, time.Since(began), testTimeout/2, "the node lives as long as its session")
		require.Greater(t, next.Token(), claim.Token())

		require.NoError(t, waiter.Release(t.Context(), next))
		_, err = queue.Claim(t.Context())
		require.NoError(t, err, "in the next session")
	})
}

func TestParentsArePersistentWhereServersCloseTheConnectionInstead(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newKeeper(t)
		client := s.connect(s.options())
		began := time.Now()
		s.claimAndRelease(client, "/a/b")
		require.Less(t, time.Since(began), testTimeout/2)
		require.False(t, s.isContainer("/a/b"))
		require.False(t, s.isContainer("/a"))

		connections := len(s.seen(isOp("connect")))
		s.claimAndRelease(client, "/c/d")
		require.Len(t, s.seen(isOp("connect")), connections, "the client remembers it")
	})
}

func TestParentsAreContainersAlthoughConnectionsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		before bool // another parent was created before
		rule   zktest.Rule
	}{
		"once":                 {false, zktest.Rule{Lose: zktest.ToServer, Times: 1}},
		"once, behind it":      {false, zktest.Rule{Lose: zktest.ToClient, Times: 1}},
		"by the client":        {false, zktest.Rule{Hold: zktest.ToClient, Times: 3}},
		"after one has worked": {true, zktest.Rule{Lose: zktest.ToServer, Times: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newEnsemble(t)
				client := s.connect(s.options())
				if c.before {
					s.claimAndRelease(client, "/before")
				}
				c.rule.Op, c.rule.When = "create", isOp("createContainer")
				lost := s.Intercept(c.rule)
				s.claimAndRelease(client, "/l")
				require.Equal(t, c.rule.Times, lost.Fired())
				require.True(t, s.isContainer("/l"))
			})
		})
	}
}
