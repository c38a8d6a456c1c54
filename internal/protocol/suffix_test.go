// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWeightIsPartOfTheName(t *testing.T) {
	for _, nonce := range []string{"", "NONCE1", "w7"} {
		for _, weight := range []int32{1, 12, MaxPermits} {
			m, ok := ParseMember(NamePrefix(4294967298, WithWeight(nonce, weight), Exclusive) + "0000000012")
			require.True(t, ok)
			require.Equal(t, weight, m.Weight)
			require.Equal(t, Exclusive, m.Mode)
			require.EqualValues(t, 12, m.Sequence)
		}
	}
	for _, name := range []string{
		"1z141z4-lock-0000000001", "1z141z4-NONCE-lock-0000000001", "1z141z4-w0-lock-0000000001", "1z141z4-w01-lock-0000000001",
		"1z141z4-w-1-lock-0000000001", "1z141z4-w+1-lock-0000000001", "1z141z4-w1048577-lock-0000000001", "w3-lock-0000000001",
		"1z141z4-w3-__WRIT__0000000001", "_c_uuid-w3lock-0000000001", "1z141z4-w3x-lock-0000000001",
	} {
		m, ok := ParseMember(name)
		require.True(t, ok, name)
		require.Zero(t, m.Weight, name)
	}
}

func TestPriorityIsPartOfTheName(t *testing.T) {
	for _, nonce := range []string{"", "NONCE1", "p7"} {
		for _, priority := range []int16{1, 12, MaxPriority} {
			m, ok := ParseMember(NamePrefix(4294967298, WithPriority(nonce, priority), Exclusive) + "0000000012")
			require.True(t, ok)
			require.Equal(t, priority, m.Priority)
			require.Zero(t, m.Weight)
			require.EqualValues(t, 12, m.Sequence)
		}
	}
	for _, name := range []string{
		"1z141z4-lock-0000000001", "1z141z4-NONCE-lock-0000000001", "1z141z4-p0-lock-0000000001", "1z141z4-p01-lock-0000000001",
		"1z141z4-p-1-lock-0000000001", "1z141z4-p+1-lock-0000000001", "1z141z4-p1001-lock-0000000001", "p3-lock-0000000001",
		"1z141z4-p70000-lock-0000000001", "1z141z4-p3-__WRIT__0000000001", "_c_uuid-p3lock-0000000001", "1z141z4-p3x-lock-0000000001",
	} {
		m, ok := ParseMember(name)
		require.True(t, ok, name)
		require.Zero(t, m.Priority, name)
	}
}
