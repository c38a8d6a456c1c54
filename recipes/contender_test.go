// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// lookers are the methods that read the first contender.
func lookers(queue *Queue) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"First":      func(ctx context.Context) error { _, err := queue.First(ctx); return err },
		"Front":      func(ctx context.Context) error { _, err := queue.Front(ctx); return err },
		"Contenders": func(ctx context.Context) error { _, err := queue.Contenders(ctx); return err },
	}
}

// A cause that wraps a missing node, say, must not make the queue look empty.
func TestLookWhoseCtxEndsReturnsItsErrorWhateverTheCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", parentMark)
		s.make("/l/another-lock-0000000000", "")
		client := s.connect(t, s.options())
		slowly(s, func(r stubRequest) bool { return r.op == opGetChildren || r.op == opGetData })
		for name, look := range lookers(newQueue(t, client, nil)) {
			for _, answer := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth} {
				// While the list is read, while the first one is, and before anything is.
				for _, after := range []time.Duration{time.Second / 2, 3 * time.Second / 2, 0} {
					cause := fmt.Errorf("worker: %w", answer)
					ctx, cancel := context.WithCancelCause(t.Context())
					if after == 0 {
						cancel(cause)
					}
					timer := time.AfterFunc(after, func() { cancel(cause) })
					began := time.Now()
					err := look(ctx)
					require.ErrorIs(t, err, context.Canceled, "%s: %v after %v", name, cause, after)
					require.ErrorIs(t, err, cause, name)
					require.NotErrorIs(t, err, ErrEmpty, name)
					require.LessOrEqual(t, time.Since(began), after, name)
					timer.Stop()
					time.Sleep(2 * time.Second)
				}
			}
		}
	})
}

func TestFrontGoesOnInTheNextSessionWhenAWatchIsTheFirstToHearOfTheExpiry(t *testing.T) {
	for name, prepare := range map[string]func(*stub){
		"a contender is first": func(s *stub) { s.make("/l", parentMark); s.make("/l/another-lock-0000000000", "pod-9") },
		"the queue is empty":   func(s *stub) { s.make("/l", parentMark) },
	} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			prepare(s)
			client := s.connect(t, s.options())
			first := client.SessionID()
			expireAtFirstWatch(s, first)
			began := time.Now()
			front, err := newQueue(t, client, nil).Front(t.Context())
			require.NoError(t, err, name)
			require.Equal(t, len(s.queue()) == 0, front.Empty, name)
			require.NotEqual(t, first, client.SessionID(), name)
			require.False(t, closed(front.Changed), name)
			require.Less(t, time.Since(began), stubTimeout/4, name)
		})
	}
}
