// SPDX-License-Identifier: Apache-2.0

package limit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
)

func TestStrangersOfOneNetworkShareItsRate(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		for name, address := range map[string]func(i int) string{
			"ports":        func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1000+i) },
			"IPv6 network": func(i int) string { return fmt.Sprintf("[2001:db8::%x]:80", i) },
			"no address":   func(i int) string { return fmt.Sprint("pipe", i) },
		} {
			s := limit.NewStrangers()
			for i := range 100 {
				require.Zero(t, s.Allow(address(i)), name)
			}
			require.Equal(t, 100*time.Millisecond, s.Allow(address(100)), name)
			time.Sleep(100 * time.Millisecond)
			require.Zero(t, s.Allow(address(101)), name)
		}
	})
}

func TestStrangersOfOtherNetworksAreCountedApart(t *testing.T) {
	s := limit.NewStrangers()
	for range 200 {
		s.Allow("192.0.2.1:80")
	}
	refused := 0
	for i := range 100 {
		if s.Allow(fmt.Sprintf("[2001:db8:0:%x::1]:80", i)) > 0 {
			refused++
		}
	}
	require.LessOrEqual(t, refused, 3, "few networks share a bucket")
}
