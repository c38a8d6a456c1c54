// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// guardTimeout is T.
const guardTimeout = 12 * time.Second

// A scriptedGuard is a guardian whose answers a test chooses.
type scriptedGuard struct {
	refusal error // of the rehearsal

	mu        sync.Mutex // guards what follows
	slow      chan struct{}
	known     map[int64]bool
	passwords map[int64][]byte
	forgotten []int64
}

func newScriptedGuard() *scriptedGuard {
	return &scriptedGuard{known: map[int64]bool{}, passwords: map[int64][]byte{}}
}

func (g *scriptedGuard) Rehearse(context.Context, []string, time.Duration) error { return g.refusal }

func (g *scriptedGuard) Protect(ctx context.Context, servers []string, session int64, password []byte, timeout time.Duration) error {
	if len(servers) != 3 || timeout != guardTimeout {
		return errors.New("not the servers and the timeout of the session")
	}
	g.mu.Lock()
	slow := g.slow
	g.passwords[session] = password
	g.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known[session] = true
	return nil
}

func (g *scriptedGuard) Forget(session int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgotten = append(g.forgotten, session)
}

func (g *scriptedGuard) Guarded(session int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known[session] {
		return errors.New("not acknowledged")
	}
	return nil
}

// stall has the guardian answer only after the channel is closed.
func (g *scriptedGuard) stall() (answer chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slow = make(chan struct{})
	return g.slow
}

// guardBubble runs a test in fake time.
func guardBubble(t *testing.T, f func(t *testing.T, servers *zktest.Ensemble, opts *recipes.Options, g *scriptedGuard)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		servers, err := zktest.Run(t.Context(), &zktest.Options{Servers: 3, InMemory: true, Tick: guardTimeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, servers.Close()) }()
		g := newScriptedGuard()
		f(t, servers, &recipes.Options{
			SessionTimeout: guardTimeout, Logger: slog.New(slog.DiscardHandler), Dial: servers.Dial, Guard: g,
		}, g)
	})
}

func TestSessionIsPublishedOnlyOnceTheGuardianHasAcknowledgedIt(t *testing.T) {
	guardBubble(t, func(t *testing.T, servers *zktest.Ensemble, opts *recipes.Options, g *scriptedGuard) {
		answer := g.stall()
		connected := make(chan *recipes.Client)
		go func() {
			client, err := recipes.Connect(t.Context(), servers.Addrs(), opts)
			if err != nil {
				t.Error(err)
			}
			connected <- client
		}()
		time.Sleep(guardTimeout / 2)
		synctest.Wait()
		select {
		case <-connected:
			t.Fatal("connected before the guardian has answered")
		default:
		}
		require.Len(t, servers.Sessions(), 1)
		close(answer)
		client := <-connected
		require.NoError(t, client.State().Unguarded)
		require.Len(t, g.passwords[client.SessionID()], 16)
		require.NoError(t, client.Close())
		require.Equal(t, []int64{client.SessionID()}, g.forgotten)
	})
}

func TestConnectFailsIfTheFirstSessionIsNotGuarded(t *testing.T) {
	guardBubble(t, func(t *testing.T, servers *zktest.Ensemble, opts *recipes.Options, g *scriptedGuard) {
		g.stall()
		_, err := recipes.Connect(t.Context(), servers.Addrs(), opts)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "guard: ")
		g.refusal = errors.New("servers open other sessions")
		_, err = recipes.Connect(t.Context(), servers.Addrs(), opts)
		require.ErrorIs(t, err, g.refusal)
		require.Empty(t, servers.Sessions(), "nothing is left behind")
	})
}

func TestLaterSessionWaitsATwentyFourthOfItsTimeoutForTheGuardian(t *testing.T) {
	guardBubble(t, func(t *testing.T, servers *zktest.Ensemble, opts *recipes.Options, g *scriptedGuard) {
		unguarded := make(chan recipes.SessionEvent, 1)
		opts.Trace = &recipes.Trace{Unguarded: func(e recipes.SessionEvent) { unguarded <- e }}
		client, err := recipes.Connect(t.Context(), servers.Addrs(), opts)
		require.NoError(t, err)
		defer client.Close()
		first := client.SessionID()
		g.stall()
		began := time.Now()
		require.NoError(t, servers.Expire(t.Context(), first))
		event := <-unguarded
		require.Less(t, time.Since(began), guardTimeout/12)
		require.GreaterOrEqual(t, time.Since(began), guardTimeout/24)
		synctest.Wait()
		require.NoError(t, client.Ready())
		require.NotEqual(t, first, client.SessionID())
		require.Equal(t, client.SessionID(), event.Session)
		require.ErrorIs(t, event.Err, context.DeadlineExceeded)
		require.ErrorContains(t, client.State().Unguarded, "not acknowledged")

		g.mu.Lock()
		g.known[client.SessionID()] = true // later
		g.mu.Unlock()
		require.NoError(t, client.State().Unguarded)
	})
}
