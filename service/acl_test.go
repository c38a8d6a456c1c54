// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestWithCredentialOnlyTheServiceWritesLeases(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, nil)
	principalsFile, keysFile := credentials(t)
	auth := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("service:secret\n"), 0o600))
	r := start(t, service.Config{Servers: e.Addrs(), Principals: principalsFile, TokenKeys: keysFile, ZooKeeperAuth: auth})
	held := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	r.post("team", orders+"/renew", proof(held)).is(200, "")

	client, err := recipes.Connect(t.Context(), e.Addrs(), nil)
	require.NoError(t, err)
	defer client.Close()
	names, err := e.Children("/lockkeeper/team/orders")
	require.NoError(t, err)
	require.Len(t, names, 1)
	_, err = client.Conn().Set("/lockkeeper/team/orders/"+names[0], nil, -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)

	var slots []string
	require.Eventually(t, func() bool {
		slots, _ = e.Children("/lockkeeper/=history") // missing until the replica has written it
		return len(slots) == 1
	}, patience, 50*time.Millisecond)
	_, err = client.Conn().Set("/lockkeeper/=history/"+slots[0], nil, -1)
	require.ErrorIs(t, err, zk.ErrNoAuth, "nor does another program change the history")

	mutex, err := lock.New(client, "/lockkeeper/team/orders", nil)
	require.NoError(t, err)
	_, err = mutex.TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrLocked, "the library reads the lease")
	r.post("team", orders+"/release", proof(held)).is(200, "")
	hold, err := mutex.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestLeaseThatIsNotRenewedEnds(t *testing.T) {
	t.Parallel()
	r := development(t)
	sent := time.Now()
	first := r.post("", orders+"/acquire", request("w1", "r1", `, "ttlMillis": 1000`)).is(200, "")
	second := r.post("", orders+"/acquire", request("w2", "r2", `, "wait": true`)).is(200, "")
	valid := time.Duration(first.body["validMillis"].(float64)) * time.Millisecond
	require.Greater(t, time.Since(sent), valid, "the holder must have stopped before another one is granted the lock")
	require.Greater(t, second.token(), first.token())
	r.post("", orders+"/renew", proof(first)).is(410, "LOCK_EXPIRED")
}
