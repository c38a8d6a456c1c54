// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestLimitIsLoweredByThousandsOfNumbersWithALargeACL(t *testing.T) {
	bubble(t, func(s servers) {
		acl := zk.WorldACL(zk.PermAll)
		for i := range 20 {
			acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: "digest", ID: fmt.Sprintf("user%d:%s", i, strings.Repeat("x", 28))})
		}
		client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{SessionTimeout: timeout, Dial: s.Dial, ACL: acl})
		require.NoError(s, err)
		s.Cleanup(func() { client.Close() })
		slots, err := lock.NewSlots(client, slotsPath, lock.MaxSlots, nil)
		require.NoError(s, err)
		s.slot(slots)
		require.NoError(s, slots.Resize(s.Context(), 1))
	})
}

func TestResizeThatIsCancelledBetweenItsStepsReportsThat(t *testing.T) {
	bubble(t, func(s servers) {
		client, link := s.client()
		path := "/" + strings.Repeat("n", 500)
		slots, err := lock.NewSlots(client, path, lock.MaxSlots, nil)
		require.NoError(s, err)
		s.slot(slots)
		ctx, cancel := context.WithCancel(s.Context())
		link.Intercept(zktest.Rule{Op: "delete", Below: path, Times: 1, Before: func(zktest.Request) { cancel() }}) // the end of a step
		err = slots.Resize(ctx, 1)
		require.ErrorIs(s, err, context.Canceled)
		require.ErrorContains(s, err, "lowered in part")
		limit, err := slots.Limit(s.Context())
		require.NoError(s, err)
		require.Greater(s, limit, 1)
		require.Less(s, limit, lock.MaxSlots)
	})
}

func TestResizeOfManyNumbersThatIsRefusedLeavesTheLimit(t *testing.T) {
	bubble(t, func(s servers) {
		slots, _ := s.slots(lock.MaxSlots)
		first, second := s.slot(slots), s.slot(slots)
		require.NoError(s, first.Unlock(s.Context()))
		err := slots.Resize(s.Context(), 1)
		held := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &held)
		require.Equal(s, second.Token(), held.Holder.Token)
		limit, err := slots.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, lock.MaxSlots, limit)
	})
}

func TestResizeThatIsRefusedAfterItsFirstStepSaysThatTheLimitWasLowered(t *testing.T) {
	for name, lost := range map[string]bool{"answered": false, "not answered": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				slots, link := s.slots(lock.MaxSlots)
				isStep := func(r zktest.Request) bool {
					return slices.ContainsFunc(r.Ops, func(op zktest.Request) bool { return op.Op == "setData" && op.Path == slotsPath+"-limit" })
				}
				if lost {
					link.Intercept(zktest.Rule{When: isStep, Times: 1, Lose: zktest.ToClient})
				}
				taken := false
				link.Intercept(zktest.Rule{Op: "delete", Below: slotsPath, Times: 1, Before: func(zktest.Request) { // the end of the first step
					taken = s.Create(slotsPath+"-limit/1", nil) == nil
				}})
				err := slots.Resize(s.Context(), 1)
				require.True(s, taken)
				require.ErrorIs(s, err, lock.ErrLocked)
				require.ErrorContains(s, err, "lowered in part")
			})
		})
	}
}

func TestProcessThatHasSeenItsLimitFollowsAnother(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.slots(2)
		b, _ := s.slots(2)
		limit, err := a.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 2, limit)
		require.NoError(s, b.Resize(s.Context(), 3))
		s.settle()
		require.NoError(s, s.slot(a).Unlock(s.Context()))
	})
}

func TestResizeThatLosesItsRacesDoesNotSayThatTheLimitIsBelowWhatIsHeld(t *testing.T) {
	bubble(t, func(s servers) {
		slots, link := s.slots(2)
		_, err := slots.Limit(s.Context())
		require.NoError(s, err)
		other := func(n int) string { return fmt.Sprintf("%s/x-lock-%010d", slotsPath, n) }
		joined, left := 0, 0
		link.Intercept(zktest.Rule{Op: "getChildren", Path: slotsPath, Times: 3, Before: func(zktest.Request) {
			joined++
			_ = s.Create(other(joined), nil)
		}})
		link.Intercept(zktest.Rule{Op: "getData", Below: slotsPath, Times: 3, Before: func(zktest.Request) {
			left++
			_ = s.Delete(other(left))
		}})
		require.NoError(s, s.Create(slotsPath, nil))
		err = slots.Resize(s.Context(), 1)
		require.ErrorIs(s, err, lock.ErrLocked)
		require.Equal(s, 3, left)
		require.NotContains(s, err.Error(), "below")
	})
}
