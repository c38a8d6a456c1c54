// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Requests cannot bring a counter near its maximum in reasonable time: the real server is started with a node whose
// next number is nearly the last.
const (
	preset           = "/preset"
	presetNext int32 = 2147483644
)

// counterAtMaximum creates nodes beyond the maximum, alone and in a transaction, and notes the parent's Stat after each
// step.
func counterAtMaximum(s *run) {
	a, b := s.session("a"), s.session("b")
	before := s.nodeStat(a, preset)
	do := func(req any) {
		a.do(req)
		s.note("the parent: %s", s.statDiff(before, s.nodeStat(a, preset)))
	}
	b.do(wire.AddWatch{Path: preset})
	for i := range 6 {
		do(create2(preset+"/s-", wire.EphemeralSequential))
		if i == 3 {
			do(multi(create(preset+"/m-", wire.EphemeralSequential), create(preset+"/n-", wire.EphemeralSequential)))
			do(deletion(preset+"/m-2147483647", -1))
		}
		do(create2(preset+"/plain", wire.Ephemeral))
		do(deletion(preset+"/plain", -1))
	}
	a.do(names(preset))
	a.closeSession()
	s.note("the parent: %s", s.statDiff(before, s.nodeStat(b, preset)))
}

func TestCounterAtMaximumBehavesAsInZooKeeper(t *testing.T) {
	reference := extended.server(t)
	s, ensemble := startZktest(t, reference, nil, false)
	require.NoError(t, ensemble.Create(preset, nil))
	require.NoError(t, ensemble.SetCounter(preset, presetNext))
	requireSame(t, scenario{"the counter at its maximum", counterAtMaximum}, reference, s)
}
