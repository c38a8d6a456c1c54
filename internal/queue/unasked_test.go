// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The way to the client can drop the connection over a reply, again and again: each time, all other requests of the client fail.
func TestReadWhoseReplyEndsTheConnectionIsNotRepeatedForNoCaller(t *testing.T) {
	for name, c := range map[string]struct {
		rule zktest.Rule
		call func(ctx context.Context, q *Queue) error
	}{
		"listing": {zktest.Rule{Op: "getChildren", Path: "/l"}, func(ctx context.Context, q *Queue) error {
			_, err := q.Try(ctx)
			return err
		}},
		"paced listing": {zktest.Rule{Op: "getChildren", Path: "/l"}, func(ctx context.Context, q *Queue) error {
			s, err := q.Client.Session(ctx)
			if err == nil {
				_, err = q.ListSoon(ctx, s)
			}
			return err
		}},
		"parent": {zktest.Rule{Op: "getData", Path: "/l"}, func(ctx context.Context, q *Queue) error {
			_, err := q.Claim(ctx)
			return err
		}},
		"watch": {zktest.Rule{Op: "getData", Path: another}, func(ctx context.Context, q *Queue) error {
			_, err := q.Claim(ctx)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newOccupied(t)
				client := s.connect(s.options())
				queue := newQueue(t, client, nil)
				c.rule.Lose = zktest.ToClient
				lost := s.link.Intercept(c.rule)
				for range 2 { // callers that share the request
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					go func() { _ = c.call(ctx, queue) }()
				}
				time.Sleep(testTimeout)
				fired := lost.Fired()
				require.NotZero(t, fired)
				time.Sleep(10 * testTimeout)
				require.Equal(t, fired, lost.Fired())

				lost.Remove()
				s.delete(another)
				claim, err := queue.Claim(t.Context())
				require.NoError(t, err)
				require.NoError(t, queue.Release(t.Context(), claim))
			})
		})
	}
}

// The search for the node of the join then repeats the read, and after the caller's ctx so does the owner.
func TestSearchWhoseReadEndsTheConnectionBacksOffOnceNoCallerWaits(t *testing.T) {
	for name, read := range map[string]zktest.Rule{
		"listing": {Op: "getChildren", Path: "/l"},
		"record":  {Op: "getData", When: func(r zktest.Request) bool { return strings.HasPrefix(r.Path, "/l/") && r.Path != another }},
	} {
		t.Run(name, func(t *testing.T) { searchBacksOff(t, read) })
	}
}

func searchBacksOff(t *testing.T, read zktest.Rule) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		other, err := New(client, "/other", nil)
		require.NoError(t, err)
		held, err := other.Claim(t.Context())
		require.NoError(t, err)
		queue := newQueue(t, client, nil)
		s.link.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		read.Lose = zktest.ToClient
		lost := s.link.Intercept(read)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = queue.Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fired := lost.Fired()
		require.NotZero(t, fired)
		time.Sleep(10 * testTimeout)
		require.Less(t, lost.Fired()-fired, 30)
		require.NoError(t, held.Err())
		require.Equal(t, 2, client.OutstandingNodes())

		lost.Remove()
		s.delete(another)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), claim))
		require.Empty(t, s.queue())
	})
}

func TestReadIsRepeatedForACallerThatComesWhileItIsUnderWay(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		slow := s.link.Intercept(zktest.Rule{Op: "getData", Path: another, Times: 1, Hold: zktest.ToClient})
		watch := func(ctx context.Context) error {
			_, err := newest(client).Watch(ctx, another, session.WatchNode)
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, watch(ctx), context.DeadlineExceeded)
		require.Equal(t, 1, slow.Held())
		watched := make(chan error, 1)
		go func() { watched <- watch(t.Context()) }()
		synctest.Wait()
		s.link.Reset()
		require.NoError(t, <-watched)
	})
}
