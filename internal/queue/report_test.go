// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// stuckLog is the handler of a logger that blocks.
type stuckLog struct {
	slog.Handler
	until <-chan struct{}
}

func (l stuckLog) Enabled(context.Context, slog.Level) bool { return true }

func (l stuckLog) Handle(context.Context, slog.Record) error {
	<-l.until
	return nil
}

func TestLoggerThatBlocksForEverDelaysNoLossAndKeepsNoClose(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		until := make(chan struct{})
		defer close(until)
		link := s.Link()
		client := s.loaded(recipes.Options{Dial: link.Dial, Logger: slog.New(stuckLog{slog.DiscardHandler, until})})
		claims := s.holdsMany(client, 20)
		time.Sleep(2 * loadTimeout)
		link.Hold(zktest.Both)
		for _, claim := range claims {
			s.requireEnds(claim)
			require.WithinDuration(s, claim.Deadline(), time.Now(), 0)
		}
		link.Release()
		claim := s.holds(client, "/a")
		closed := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(closed)
			client.Close()
		}()
		select {
		case <-closed:
		case <-time.After(time.Minute):
		}
		require.Less(s, time.Since(began), 5*time.Second)
		require.ErrorIs(s, claim.Err(), recipes.ErrClosed)
	})
}

func TestEveryLossIsTracedHoweverManyThereAreAtTheSameTime(t *testing.T) {
	need.NoRaceDetector(t)
	const claims = 3000
	crowded(t, zktest.Options{}, func(s servers) {
		var lost atomic.Int64
		client := s.loaded(recipes.Options{Trace: &recipes.Trace{Lost: func(recipes.QueueEvent) {
			time.Sleep(time.Millisecond)
			lost.Add(1)
		}}})
		held := s.holdsMany(client, claims)
		require.NoError(s, s.Expire(t.Context(), client.SessionID()))
		for _, claim := range held {
			<-claim.Done()
		}
		time.Sleep(time.Minute)
		require.Equal(s, int64(claims), lost.Load())
	})
}

func TestConnectLeavesAServerThatDoesNotAnswerWithinSecondsHoweverLongTheTimeout(t *testing.T) {
	const timeout = time.Minute
	crowded(t, zktest.Options{Servers: 3, Tick: timeout / 4}, func(s servers) {
		s.Server(1).Hang(true)
		s.Server(3).Hang(true)
		slowest := time.Duration(0)
		for range 20 { // servers are tried in any order
			began := time.Now()
			client := s.loaded(recipes.Options{SessionTimeout: timeout})
			require.Equal(s, timeout, client.SessionTimeout())
			slowest = max(slowest, time.Since(began))
		}
		require.LessOrEqual(s, slowest, 2*3*time.Second+time.Second)
	})
}
