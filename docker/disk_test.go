// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerWithItsOwnDisk(t *testing.T) {
	onEach(t, Options{DiskSize: 16 << 20, Properties: map[string]string{"zookeeper.preAllocSize": "64"}}, func(t trial, e *Ensemble) {
		inTurn(t, e, []subtest{
			{"Disk is kept while the server is killed", diskIsKeptWhileTheServerIsKilled},
			{"Server with a full disk carries nothing out until it is freed", fullDiskStopsTheServerUntilItIsFreed},
		})
	})
}

func fullDiskStopsTheServerUntilItIsFreed(t trial, e *Ensemble) {
	ctx := bounded(t)
	server := e.Servers()[0]
	s := dialSession(t, server.Addr())
	require.NoError(t, server.FillDisk(ctx))
	require.NoError(t, server.FillDisk(ctx), "again")
	var refused error
	for range 1000 { // what was allotted to the log is used up first
		if refused = s.create(t, "/a-"); refused != nil {
			break
		}
	}
	require.Error(t, refused)
	require.NoError(t, server.Kill(ctx))
	require.NoError(t, server.FreeDisk(ctx))
	require.NoError(t, server.FreeDisk(ctx), "again")
	require.NoError(t, server.Start(ctx))
	require.NoError(t, server.WaitServing(ctx))
	require.NoError(t, dialSession(t, server.Addr()).create(t, "/b-"))
}

func diskIsKeptWhileTheServerIsKilled(t trial, e *Ensemble) {
	ctx := bounded(t)
	server := e.Servers()[0]
	require.NoError(t, dialSession(t, server.Addr()).create(t, "/a-"))
	before := t.TempDir()
	require.NoError(t, server.SaveLogs(ctx, before))
	require.NoError(t, server.Kill(ctx))
	require.NoError(t, server.Start(ctx))
	require.NoError(t, server.WaitServing(ctx))
	after := t.TempDir()
	require.NoError(t, server.SaveLogs(ctx, after))
	require.Subset(t, transactions(t, after), transactions(t, before))
	require.NotEmpty(t, transactions(t, before))
}

func serverWithoutItsOwnDiskReportsThat(t trial, e *Ensemble) {
	server := e.Servers()[0]
	require.ErrorIs(t, server.FillDisk(t.Context()), ErrUnsupported)
	require.ErrorIs(t, server.FreeDisk(t.Context()), ErrUnsupported)
}
