// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A counter cannot be brought near its end by requests: the real server has to be started with a node whose next
// number is nearly the last one.
const (
	planted       = "/planted"
	next    int32 = 2147483644
)

// ending creates past the end, alone and in a transaction, and looks at the parent after each step.
func ending(s *stage) {
	a, b := s.session("a"), s.session("b")
	before := s.peek(a, planted)
	do := func(req any) {
		a.do(req)
		s.note("the parent: %s", s.difference(before, s.peek(a, planted)))
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
	a.bye()
	s.note("the parent: %s", s.difference(before, s.peek(b, planted)))
}

func TestTheCounterOfNamesEndsAsZooKeepers(t *testing.T) {
	reference := special(t, "-counter", fmt.Sprintf("%s=%d", planted, next))
	s, ensemble := double(t, reference, false)
	require.NoError(t, ensemble.Create(planted, nil))
	require.NoError(t, ensemble.PlantCounter(planted, next))
	same(t, scenario{"the counter at its end", ending}, reference, s)
}
