// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestWriteOfBarrierThatAnOperatorDeletedEndsNoRoundOfTheNewOne(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q, r := s.process(), s.process(), s.process()
		first := p.enter(s.Context(), 1).entered()
		// The write that closes the round is delayed until the barrier has a new life, at the same version.
		var second *barrier.Round
		p.link.Intercept(zktest.Rule{Op: "setData", Path: path + "/state", Times: 1, Before: func(zktest.Request) {
			s.must(s.Delete(path + "/state"))
			second = q.enter(s.Context(), 1).entered()
		}})
		_ = first.Leave(s.Context())
		require.NotNil(s, second)
		third := r.enter(s.Context(), 1)
		third.mustWait(2 * timeout)
		s.must(second.Leave(s.Context()))
		third.entered()
	})
}

func TestWaitingMemberEntersAfterTheStateHasGoneBackToAnEarlierRound(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		var saved []byte
		for number := range int64(3) {
			a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
			first, second := a.entered(), b.entered()
			leaving := leave(first)
			s.must(second.Leave(s.Context()))
			s.mustReturn(leaving)
			if number == 0 {
				var err error
				saved, _, err = s.Get(path + "/state")
				s.must(err)
			}
		}
		a := p.enter(s.Context(), 2)
		a.mustWait(timeout)
		s.must(s.Set(path+"/state", saved)) // as an operator does who writes saved data
		b := q.enter(s.Context(), 2)
		require.Equal(s, int64(2), a.entered().Number())
		require.Equal(s, int64(2), b.entered().Number())
	})
}
