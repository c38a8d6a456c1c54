// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var errNoLonger = errors.New("no longer needed")

// requireEnded requires that a call reports the end of its context with the cause, and that no outcome is unknown.
func requireEnded(s servers, err error, after time.Duration) {
	s.Helper()
	require.ErrorIs(s, err, context.DeadlineExceeded, after)
	require.ErrorIs(s, err, errNoLonger, after)
	require.NotErrorIs(s, err, recipes.ErrUncertain, after)
}

func TestWaitThatIsGivenUpAtAnyInstantIsNotUncertain(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		s.must(p.Set(s.Context()))
		p.link.Delay(timeout / 16)
		for d := time.Millisecond; d < timeout/2; d += timeout / 40 {
			ctx, cancel := context.WithTimeoutCause(s.Context(), d, errNoLonger)
			requireEnded(s, p.Wait(ctx), d)
			cancel()
		}
	})
}

func TestMemberThatGivesUpAtAnyInstantIsUncertainOfItsOwnNodeAtMost(t *testing.T) {
	for d := time.Millisecond; d < timeout; d += timeout / 50 {
		bubble(t, zktest.Options{}, func(s servers) {
			p, q := s.process(), s.process()
			ctx, cancel := context.WithTimeoutCause(s.Context(), d, errNoLonger)
			p.link.Delay(timeout / 32)
			_, err := p.double(2).Enter(ctx)
			cancel()
			requireEnded(s, err, d)
			require.Zero(s, p.client.OutstandingNodes(), d)

			a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
			first := a.entered()
			left := leave(b.entered())
			time.Sleep(timeout / 8)
			ctx, cancel = context.WithTimeoutCause(s.Context(), d, errNoLonger)
			defer cancel()
			if err := first.Leave(ctx); err != nil {
				requireEnded(s, err, d)
			}
			s.mustReturn(left)
		})
	}
}

func TestMemberWhoseNodeWasCreatedUnansweredIsUncertain(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		d, err := barrier.NewDouble(p.client, path, 3, &barrier.DoubleOptions{ReleaseTimeout: timeout / 8})
		s.must(err)
		first := q.enter(s.Context(), 3)
		time.Sleep(timeout)
		p.link.Intercept(zktest.Rule{Op: "create", Hold: zktest.ToClient, Before: func(zktest.Request) { p.link.Refuse(true) }})
		_, err = d.Enter(s.within(timeout / 8))
		require.ErrorIs(s, err, context.DeadlineExceeded)
		members, listed := s.Children(path + "/7-1")
		s.must(listed)
		require.Len(s, members, 2)
		require.ErrorIs(s, err, recipes.ErrUncertain)
		first.mustWait(0)
		p.link.Refuse(false)
	})
}
