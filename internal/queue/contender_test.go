// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// readers are the methods that read the first contender.
func readers(queue *Queue) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"First":      func(ctx context.Context) error { _, err := queue.First(ctx); return err },
		"Front":      func(ctx context.Context) error { _, err := queue.Front(ctx); return err },
		"Contenders": func(ctx context.Context) error { _, err := queue.Contenders(ctx); return err },
	}
}

// A cause that wraps a missing node, say, must not make the queue look empty.
func TestReadWhoseCtxEndsReturnsItsErrorWhateverTheCause(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{When: isOp("getChildren2", "getData"), Delay: time.Second})
		for name, read := range readers(newQueue(t, client, nil)) {
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
					err := read(ctx)
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
	for name, prepare := range map[string]func(*ensemble){
		"a contender is first": func(s *ensemble) { s.create("/l", string(protocol.ParentData(0))); s.create(another, "pod-9") },
		"the queue is empty":   func(s *ensemble) { s.create("/l", string(protocol.ParentData(0))) },
	} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			prepare(s)
			client := s.connect(s.options())
			first := client.SessionID()
			s.answerExpired(first, zktest.Rule{When: func(r zktest.Request) bool { return r.Watch }})
			began := time.Now()
			front, err := newQueue(t, client, nil).Front(t.Context())
			require.NoError(t, err, name)
			require.Equal(t, len(s.queue()) == 0, front.Empty, name)
			require.NotEqual(t, first, client.SessionID(), name)
			require.False(t, closed(front.Changed), name)
			require.Less(t, time.Since(began), testTimeout/4, name)
		})
	}
}

func TestFirstIsTheNextOneIfTheListedOneLeavesBeforeItIsRead(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{Op: "getData", Path: another, Times: 1, Before: func(zktest.Request) {
			s.create("/l/another-lock-0000000001", "pod-10")
			s.delete(another)
		}})
		first, err := newQueue(t, client, nil).First(t.Context())
		require.NoError(t, err)
		require.Equal(t, "pod-10", first.Owner)
	})
}
