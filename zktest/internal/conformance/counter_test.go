// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Requests cannot bring a counter near its maximum in reasonable time: the real server is started with a node whose
// next number is nearly the last.
const (
	planted           = "/planted"
	plantedNext int32 = 2147483644
)

// counterAtMaximum creates nodes beyond the maximum, alone and in a transaction, and notes the parent's Stat after each
// step.
func counterAtMaximum(s *run) {
	a, b := s.session("a"), s.session("b")
	before := s.nodeStat(a, planted)
	do := func(req any) {
		a.do(req)
		s.note("the parent: %s", s.statDiff(before, s.nodeStat(a, planted)))
	}
	b.do(wire.AddWatch{Path: planted})
	for i := range 6 {
		do(create2(planted+"/s-", wire.EphemeralSequential))
		if i == 3 {
			do(multi(create(planted+"/m-", wire.EphemeralSequential), create(planted+"/n-", wire.EphemeralSequential)))
			do(deletion(planted+"/m-2147483647", -1))
		}
		do(create2(planted+"/plain", wire.Ephemeral))
		do(deletion(planted+"/plain", -1))
	}
	a.do(names(planted))
	a.closeSession()
	s.note("the parent: %s", s.statDiff(before, s.nodeStat(b, planted)))
}

func TestCounterAtMaximumBehavesAsInZooKeeper(t *testing.T) {
	reference := startReal(t, "-counter", fmt.Sprintf("%s=%d", planted, plantedNext))
	s, ensemble := startZktest(t, reference, false)
	require.NoError(t, ensemble.Create(planted, nil))
	require.NoError(t, ensemble.SetCounter(planted, plantedNext))
	requireSame(t, scenario{"the counter at its maximum", counterAtMaximum}, reference, s)
}
