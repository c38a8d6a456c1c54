// SPDX-License-Identifier: Apache-2.0

package txnlog_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/torture/txnlog"
)

func TestLogsSavedFromRunningAndKilledServersAreRead(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := docker.Start(t, nil).Servers()[0]
	conn, _, err := zk.Connect([]string{server.Addr()}, 4*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	path, err := conn.Create("/a-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	conn.Close()
	require.NoError(t, err)
	running, killed := t.TempDir(), t.TempDir()
	require.NoError(t, server.SaveLogs(ctx, running))
	require.NoError(t, server.Kill(ctx))
	require.NoError(t, server.SaveLogs(ctx, killed))
	for _, dir := range []string{running, killed} {
		txns, err := txnlog.ReadDir(dir)
		require.NoError(t, err)
		var created []string
		for _, txn := range txns {
			for _, part := range txn.All() {
				if part.Type == txnlog.Create {
					created = append(created, part.Paths...)
				}
			}
		}
		require.Contains(t, created, path)
	}
}
