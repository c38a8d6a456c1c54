// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPermitsDecisionAgreesWithItsDefinition(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		limit := 1 + r.IntN(5)
		line := make([]Member, 1+r.IntN(8))
		for i := range line {
			line[i] = Member{Name: fmt.Sprint(i), Sequence: int32(i), Weight: int32(r.IntN(limit + 2))}
		}
		own := line[r.IntN(len(line))]
		if own.Weight == 0 || int(own.Weight) > limit {
			continue // refused before
		}
		taken := 0
		for _, m := range line[:own.Sequence] {
			if m.Weight == 0 || int(m.Weight) > limit {
				taken += limit
			} else {
				taken += int(m.Weight)
			}
		}
		d, listed := NewOrder(slices.Clone(line)).Decide(own, limit)
		require.True(t, listed)
		require.Equal(t, taken+int(own.Weight) <= limit, d.Granted(), "seed %d", seed)
		if !d.Granted() {
			require.Equal(t, fmt.Sprint(own.Sequence-1), d.Ahead[0].Name)
			require.False(t, d.Complete)
		}
	}
}
