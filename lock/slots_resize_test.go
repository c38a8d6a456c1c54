// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
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
