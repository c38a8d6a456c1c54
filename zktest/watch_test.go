// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestConnectionThatEndsWhileItsWatchesAreRestoredHasNone(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.create("/changed", 0)
		_, _, changed, err := c.GetW("/changed")
		require.NoError(t, err)
		const same = 32 // their watches are restored in any order: some after the one of /changed
		for i := range same {
			path := fmt.Sprint("/same-", i)
			c.create(path, 0)
			_, _, _, err = c.GetW(path)
			require.NoError(t, err)
		}
		lost := e.Intercept(zktest.Rule{Op: "notification", Lose: zktest.ToClient, Times: 2}) // the second one is of setWatches
		require.NoError(t, e.Set("/changed", nil))
		<-changed
		require.Equal(t, 2, lost.Fired())
		require.Len(t, e.Watches(), same)
		c.Close()
		require.Empty(t, e.Watches())
	})
}

func TestWatchesAreListedWithPathKindAndSession(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		require.NoError(t, e.Create("/a", nil))
		require.Empty(t, e.Watches())
		c := connect(t, e, timeout, e.Server(2).Addr())
		_, _, events, err := c.GetW("/a")
		require.NoError(t, err)
		_, _, _, err = c.ExistsW("/missing")
		require.NoError(t, err)
		_, _, _, err = c.ChildrenW("/a")
		require.NoError(t, err)
		other := dialRaw(t, e)
		reply, err := other.Connect(handshake, maxWait)
		require.NoError(t, err)
		for xid, req := range []wire.AddWatch{{Path: "/a", Mode: 0}, {Path: "/", Mode: 1}} {
			require.NoError(t, other.Send(rawclient.Request(int32(xid), req)))
			_, err := other.Next(maxWait)
			require.NoError(t, err)
		}
		one, two := c.SessionID(), reply.Session
		require.Equal(t, []zktest.Watch{
			{"/", zktest.WatchRecursive, two, 1},
			{"/a", zktest.WatchData, one, 2},
			{"/a", zktest.WatchChildren, one, 2},
			{"/a", zktest.WatchPersistent, two, 1},
			{"/missing", zktest.WatchData, one, 2},
		}, e.Watches())

		require.NoError(t, e.Set("/a", nil))
		require.Equal(t, zk.EventNodeDataChanged, (<-events).Type)
		require.NoError(t, other.Close())
		waitFor(t, "the watches of a connection that ended are gone", func() bool { return len(e.Watches()) == 2 })
		require.Equal(t, []zktest.Watch{
			{"/a", zktest.WatchChildren, one, 2},
			{"/missing", zktest.WatchData, one, 2},
		}, e.Watches())
	})
}
