// SPDX-License-Identifier: Apache-2.0

package limit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
)

func TestOneEventASecondIsShownAfterABurst(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := limit.NewSampler()
		shown := 0
		for range 1000 {
			if _, skip := s.Skip("team", "busy"); !skip {
				shown++
			}
		}
		require.Equal(t, 100, shown)
		_, skip := s.Skip("team", "invalid")
		require.False(t, skip, "another kind")
		_, skip = s.Skip("sales", "busy")
		require.False(t, skip, "another principal")
		time.Sleep(time.Second)
		skipped, skip := s.Skip("team", "busy")
		require.False(t, skip)
		require.Equal(t, 900, skipped)
		_, skip = s.Skip("team", "busy")
		require.True(t, skip)
	})
}
