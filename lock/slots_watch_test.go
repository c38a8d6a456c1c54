// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// On a new connection the client sets its watches again packet by packet. In the meantime it releases the number and is granted it again:
// it then still has the watch of the former grant.
func TestSlotIsNotLostToAWatchOfTheNumbersFormerGrant(t *testing.T) {
	bubble(t, func(s servers) {
		const watches = 400 // in about 15 packets
		client, link := s.client()
		slots, err := lock.NewSlots(client, slotsPath, 1, nil)
		require.NoError(s, err)
		for i := range watches {
			path := fmt.Sprintf("/%s-%d", strings.Repeat("x", 5000), i)
			require.NoError(s, s.Create(path, nil))
			_, _, _, err := client.Conn().GetW(path)
			require.NoError(s, err)
		}
		for range 8 {
			slot := s.slot(slots)
			s.settle()
			link.Delay(time.Millisecond)
			link.Reset()
			require.NoError(s, slot.Unlock(s.Context()))
			next := s.slot(slots)
			time.Sleep(timeout)
			require.NoError(s, next.Check(s.Context()))
			link.Delay(0)
			require.NoError(s, next.Unlock(s.Context()))
			require.Empty(s, s.numbers())
		}
	})
}

// The contender's node is kept for T/4, but the number that an operator has freed belongs to the next holder.
func TestHolderThatLostItsNumberAfterItsDeadlineDoesNotDeleteTheNextHoldersNumber(t *testing.T) {
	bubble(t, func(s servers) {
		slots, link := s.slots(1)
		slot := s.slot(slots)
		link.Hold(zktest.ToServer)
		<-slot.Done()
		link.Release()
		s.settle()
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		require.NoError(s, s.Create(slotsPath+"-limit/0", nil))
		time.Sleep(timeout)
		contenders, err := s.Children(slotsPath)
		require.NoError(s, err)
		require.Empty(s, contenders)
		require.Equal(s, []string{"0"}, s.numbers())
	})
}
