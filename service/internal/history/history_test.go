// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A world is an ensemble in fake time with two replicas, each with its log.
type world struct {
	*testing.T
	ensemble   *zktest.Ensemble
	one, other *Log
	log        buffer
	stop       func() // the replicas
}

// A buffer is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func simulated(t *testing.T, f func(w *world)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(context.Background(), &zktest.Options{InMemory: true, Tick: time.Second})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		w := &world{T: t, ensemble: ensemble}
		ctx, cancel := context.WithCancel(t.Context())
		logger := slog.New(slog.NewTextHandler(&w.log, nil))
		var running sync.WaitGroup
		w.stop = func() {
			cancel()
			running.Wait()
		}
		for _, l := range []**Log{&w.one, &w.other} {
			client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
				SessionTimeout: 4 * time.Second, Dial: ensemble.Dial, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			defer client.Close()
			*l = New(client, "/lockkeeper/=history", zk.WorldACL(zk.PermAll), logger)
			running.Go(func() { (*l).Run(ctx) })
		}
		defer w.stop() // before the clients
		f(w)
	})
}

func (w *world) list(l *Log, namespace, key string) (owners []string) {
	w.Helper()
	entries, err := l.List(w.Context(), namespace, key)
	require.NoError(w, err)
	for _, e := range entries {
		owners = append(owners, e.Owner)
	}
	return owners
}

func entry(token fencing.Token, owner string) Entry {
	return Entry{Time: time.Now(), Action: Acquired, Token: token, Owner: owner}
}

func TestAnyReplicaShowsTheHistoryOfAll(t *testing.T) {
	simulated(t, func(w *world) {
		w.one.Add("team", "orders", entry(1, "a"))
		w.other.Add("team", "orders", entry(2, "b"))
		w.one.Add("team", "orders", entry(3, "c"))
		w.one.Add("team", "other", entry(4, "d"))
		require.Equal(w, []string{"c", "a"}, w.list(w.one, "team", "orders"), "its own, immediately")
		time.Sleep(3 * flushEvery)
		for _, l := range []*Log{w.one, w.other} {
			require.Equal(w, []string{"c", "b", "a"}, w.list(l, "team", "orders"))
			require.Equal(w, []string{"d"}, w.list(l, "team", "other"))
			require.Empty(w, w.list(l, "sales", "orders"))
		}
		require.Empty(w, w.log.String())
	})
}

func TestReplicaThatStopsWritesItsHistory(t *testing.T) {
	simulated(t, func(w *world) {
		for i := range fencing.Token(3 * perFlush) {
			w.one.Add("team", strings.Repeat("k", int(i)+1), entry(i+1, "a"))
		}
		w.stop()
		for i := range 3 * perFlush {
			require.Equal(w, []string{"a"}, w.list(w.other, "team", strings.Repeat("k", i+1)))
		}
	})
}

func TestHistoryOutlivesAnOutage(t *testing.T) {
	simulated(t, func(w *world) {
		require.NoError(w, w.ensemble.Server(1).Pause(w.Context()))
		w.one.Add("team", "orders", entry(1, "a"))
		time.Sleep(time.Minute)
		require.Contains(w, w.log.String(), "history of locks not written yet")
		require.Less(w, strings.Count(w.log.String(), "\n"), 40)
		require.NoError(w, w.ensemble.Server(1).Unpause(w.Context()))
		require.Eventually(w, func() bool { return len(w.list(w.other, "team", "orders")) == 1 }, time.Minute, time.Second)
	})
}

// A repeated grant is known already, and a busy lock costs no more than a quiet one.
func TestHistoryCostsOneWriteInAnInterval(t *testing.T) {
	simulated(t, func(w *world) {
		w.one.Add("team", "orders", entry(1, "a"))
		time.Sleep(2*flushEvery + flushEvery/2) // between two writes
		writes := w.ensemble.Intercept(zktest.Rule{Op: "setData", Path: "/lockkeeper/=history/" + w.slot("team", "orders")})
		for i := range fencing.Token(1000) {
			w.one.Add("team", "orders", entry(i+2, "b"))
		}
		time.Sleep(2 * flushEvery)
		require.Equal(w, 1, writes.Fired())
		w.one.Add("team", "orders", entry(1001, "b"))
		time.Sleep(2 * flushEvery)
		require.Equal(w, 1, writes.Fired())
		require.Len(w, w.list(w.other, "team", "orders"), Kept)
	})
}

func TestSlotThatIsOverwrittenBeginsAgain(t *testing.T) {
	simulated(t, func(w *world) {
		w.one.Add("team", "orders", entry(1, "a"))
		time.Sleep(2 * flushEvery)
		node, err := node.New(w.one.client, "/lockkeeper/=history/"+w.slot("team", "orders"))
		require.NoError(w, err)
		require.NoError(w, node.Replace(w.Context(), []byte("rubbish"), -1))
		require.Empty(w, w.list(w.one, "team", "orders"))
		w.one.Add("team", "orders", entry(2, "b"))
		time.Sleep(2 * flushEvery)
		require.Equal(w, []string{"b"}, w.list(w.other, "team", "orders"))
	})
}

func (w *world) slot(namespace, key string) string {
	r := record{place: place{namespace, key}}
	node, err := w.one.node(r.slot())
	require.NoError(w, err)
	return node.Path()[strings.LastIndexByte(node.Path(), '/')+1:]
}
