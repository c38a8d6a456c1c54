// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestStateReportsSinceWhenAServerServesTheSessionAndWhenItWasLastProved(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts := s.options()
		began := time.Now()
		client := s.connect(opts)
		state := client.State()
		require.True(t, state.Attached)
		require.Equal(t, client.SessionID(), state.Session)
		require.Equal(t, testTimeout, state.Timeout)
		require.Equal(t, began, state.Since)
		require.Zero(t, state.Proof)
		require.NoError(t, client.Ready())

		time.Sleep(time.Second)
		claimed(t, client)
		require.Equal(t, time.Now(), client.State().Proof, "the join is one")

		s.unreachable.Store(true)
		s.link.Reset()
		synctest.Wait()
		cut := time.Now()
		time.Sleep(testTimeout/4 - time.Nanosecond)
		state = client.State()
		require.False(t, state.Attached)
		require.Equal(t, cut, state.Since)
		require.NoError(t, client.Ready(), "what heals by then costs nothing")
		time.Sleep(time.Nanosecond)
		require.ErrorContains(t, client.Ready(), "no server has served the session since")
		require.ErrorIs(t, client.Ready(), errUnreachable, "and why")

		s.unreachable.Store(false)
		time.Sleep(time.Second)
		require.True(t, client.State().Attached)
		require.NoError(t, client.Ready())
		client.Close()
		require.ErrorIs(t, client.Ready(), recipes.ErrClosed)
		require.ErrorIs(t, client.State().Ended, recipes.ErrClosed)
	})
}

func TestClientBetweenTwoSessionsIsNotReady(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts := s.options()
		client := s.connect(opts)
		s.unreachable.Store(true)
		s.link.Reset()
		time.Sleep(3 * testTimeout)
		require.ErrorIs(t, client.State().Ended, recipes.ErrSessionExpired)
		require.ErrorIs(t, client.Ready(), recipes.ErrSessionExpired)
		require.ErrorIs(t, client.Ready(), errUnreachable)
	})
}

func TestSlowSubscriberSkipsToTheNewestState(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		var subscribers sync.WaitGroup
		seen := make([][]bool, 3)
		for i := range seen {
			subscribers.Go(func() {
				for state := range client.States(t.Context()) {
					seen[i] = append(seen[i], state.Attached)
					time.Sleep(time.Duration(i) * 2500 * time.Millisecond)
				}
			})
		}
		synctest.Wait()
		want := []bool{true}
		for range 30 {
			s.link.Reset()
			time.Sleep(2 * time.Second)
			want = append(want, false, true)
		}
		client.Close()
		want = append(want, false)
		subscribers.Wait()
		require.Equal(t, want, seen[0], "a reader that keeps up sees each state")
		for i, states := range seen[1:] {
			require.Less(t, len(states), len(want)/2, "subscriber %d", i+1)
			require.False(t, states[len(states)-1], "subscriber %d sees the last state", i+1)
		}
	})
}

func TestSubscriptionEndsWithItsContextAndWithTheClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		n := 0
		for range client.States(ctx) {
			n++
		}
		require.Equal(t, 1, n)
		client.Close()
		for state := range client.States(t.Context()) {
			require.ErrorIs(t, state.Ended, recipes.ErrClosed)
		}
	})
}

func TestOutageThatLastsIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	for name, outage := range map[string]time.Duration{
		"of a session":         testTimeout / 3,
		"between two sessions": 10 * testTimeout,
	} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			opts := s.options()
			var log logLines
			opts.Logger = slog.New(&log)
			client := s.connect(opts)

			s.link.Reset()
			time.Sleep(testTimeout / 5)
			require.Empty(t, log.warnings(), "what heals soon is no matter for people")

			s.unreachable.Store(true)
			s.link.Reset()
			time.Sleep(testTimeout / 3)
			require.Len(t, log.warnings(), 1, name)
			require.Contains(t, log.warnings()[0], noServer)
			time.Sleep(outage)
			s.unreachable.Store(false)
			time.Sleep(testTimeout)
			require.True(t, client.State().Attached)
			again := 0
			for _, line := range log.warnings() {
				if strings.Contains(line, "serves the session again") {
					again++
				}
			}
			require.Equal(t, 1, again, name)
			require.LessOrEqual(t, len(log.warnings()), 3+int(outage/30*time.Second), "%s: one for each session that was sought", name)
		})
	}
}

// noServer is the message of a client that no server serves.
const noServer = "no zookeeper server serves the session"

func TestClientWithoutServerLogsTheCauseAgainEvery30Seconds(t *testing.T) {
	for name, outage := range map[string]func(s *ensemble, opts *recipes.Options){
		"while it connects": func(s *ensemble, opts *recipes.Options) {
			ctx, cancel := context.WithTimeout(s.t.Context(), 95*time.Second)
			defer cancel()
			_, err := recipes.Connect(ctx, s.Addrs(), opts)
			require.ErrorIs(t, err, errUnreachable)
		},
		"after it had a session": func(s *ensemble, opts *recipes.Options) {
			s.unreachable.Store(false)
			client := s.connect(opts)
			s.unreachable.Store(true)
			s.link.Reset()
			time.Sleep(2*testTimeout + 95*time.Second)
			client.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newEnsemble(t)
				s.unreachable.Store(true)
				opts := s.options()
				var log logLines
				opts.Logger = slog.New(&log)
				outages := 0
				opts.Trace = &recipes.Trace{Outage: func(recipes.SessionEvent) { outages++ }}
				outage(s, opts)
				warnings := log.warnings()
				require.Len(t, warnings, outages+3, "after T/4, and then 3 times in 95 s")
				for _, w := range warnings {
					require.Contains(t, w, noServer)
					require.Contains(t, w, s.Addrs()[0]+": "+errUnreachable.Error(), "it names what it cannot reach, and the cause")
				}
			})
		})
	}
}

// logLines records the log.
type logLines struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logLines) WithGroup(string) slog.Handler            { return l }
func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.lines = append(l.lines, line)
	return nil
}

func (l *logLines) warnings() (warnings []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.HasPrefix(line, "WARN") {
			warnings = append(warnings, line)
		}
	}
	return warnings
}
