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
