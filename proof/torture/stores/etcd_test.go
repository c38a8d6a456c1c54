// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// serves returns nil if a member serves within 2 s.
func serves(ctx context.Context, m *stores.EtcdMember) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return m.WaitServing(ctx)
}

func TestEtcdServesWithoutOneMemberAndNotWithoutTwo(t *testing.T) {
	c := stores.EtcdCluster(t, 3, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.Len(t, c.Addrs(), 3)
	leader, err := c.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, leader.Kill(ctx))
	var rest []*stores.EtcdMember
	for _, m := range c.Members() {
		if m != leader {
			rest = append(rest, m)
			require.NoError(t, m.WaitServing(ctx), "two of three members are a quorum")
		}
	}
	require.NoError(t, rest[0].Pause())
	require.Error(t, serves(ctx, rest[1]))
	require.NoError(t, rest[0].Unpause())
	require.NoError(t, leader.Start(ctx))
	require.NoError(t, c.WaitServing(ctx))
}

func TestIsolatedEtcdMemberIsReachableAndDoesNotServe(t *testing.T) {
	c := stores.EtcdCluster(t, 3, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leader, err := c.Leader(ctx)
	require.NoError(t, err)
	err = leader.Isolate(ctx)
	if errors.Is(err, docker.ErrUnsupported) {
		need.Lacking(t, "%v", err)
	}
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		other, err := c.Leader(ctx)
		return err == nil && other != leader
	}, 20*time.Second, 50*time.Millisecond)
	_, err = leader.Version(ctx)
	require.NoError(t, err, "clients reach it")
	require.Error(t, serves(ctx, leader))
	require.NoError(t, leader.Partition(ctx))
	_, err = leader.Version(ctx)
	require.Error(t, err)
	require.NoError(t, leader.Heal(ctx))
	require.NoError(t, c.WaitServing(ctx))
}
