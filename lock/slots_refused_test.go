// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestRefusalOfANumbersNodeNamesIt(t *testing.T) {
	const number = slotsPath + "-limit/0"
	bubble(t, func(s servers) {
		slots, link := s.slots(1)
		creates := link.Intercept(zktest.Rule{Op: "create", Path: number, Fail: zktest.ErrNoAuth})
		_, err := slots.Acquire(s.Context())
		require.ErrorContains(s, err, "create "+number+": zk: not authenticated")
		require.Equal(s, 1, creates.Fired())
		creates.Remove()
		slot := s.slot(slots)
		deletes := link.Intercept(zktest.Rule{Op: "delete", Path: number, Fail: zktest.ErrNoAuth})
		require.ErrorContains(s, slot.Unlock(s.Context()), "delete "+number+": zk: not authenticated")
		time.Sleep(10 * timeout)
		require.Less(s, deletes.Fired(), 10, "the client tries again, with a growing pause")
		deletes.Remove()
		time.Sleep(2 * time.Minute)
		require.Empty(s, s.numbers())
	})
}
