// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func grant(namespace, key string, token fencing.Token) record {
	return record{place{namespace, key}, Entry{Time: time.UnixMilli(1e12).UTC(), Action: Acquired, Token: token, Owner: "w1"}}
}

func tokens(records []record) (all []fencing.Token) {
	for _, r := range records {
		all = append(all, r.Token)
	}
	return all
}

func TestSlotKeepsTheNewestEntriesOfEachLock(t *testing.T) {
	var all []record
	for i := range fencing.Token(10) {
		all = append(all, grant("team", "busy", 100+i))
	}
	all = append(all, grant("team", "quiet", 1))
	merged := merge(all, 3, maxSlot)
	require.Equal(t, []fencing.Token{109, 108, 107, 1}, tokens(merged))
	require.Equal(t, merged, merge(append(slices.Clone(merged), merged...), 3, maxSlot), "it is merged already")
}

func TestEventThatTwoReplicasHaveSeenIsOneEntry(t *testing.T) {
	first, later := grant("team", "orders", 7), grant("team", "orders", 7)
	later.Time = later.Time.Add(time.Second)
	forced := grant("team", "orders", 7)
	forced.Action = ForceReleased
	merged := merge([]record{first, forced, later}, Kept, maxSlot)
	require.Equal(t, []record{forced, first}, merged)
}

func TestTenantDoesNotPushOutAnother(t *testing.T) {
	all := []record{grant("small", "orders", 1)}
	for i := range 500 {
		all = append(all, grant("large", fmt.Sprint("key", i), fencing.Token(10+i)))
	}
	merged := merge(all, Kept, maxSlot)
	require.Equal(t, fencing.Token(1), merged[len(merged)-1].Token)
	require.Greater(t, len(merged), 30)
	require.Equal(t, fencing.Token(509), merged[0].Token)
}

func TestSlotNeverExceedsItsBytes(t *testing.T) {
	for _, length := range []int{1, 100, 3000, 3 * maxSlot} {
		var all []record
		for i := range 200 {
			r := grant("team", fmt.Sprint("key", i), fencing.Token(i+1))
			r.Reason = strings.Repeat("\x01", length)
			all = append(all, r)
		}
		data, err := json.Marshal(merge(all, Kept, maxSlot))
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), maxSlot+2)
	}
}
