// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestKeeperOpensAnotherSessionAtEachHandshake(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Personality: zktest.Keeper})
		c := connect(t, e, timeout)
		first := c.SessionID()
		c.create("/e", zk.FlagEphemeral)

		c.link.Reset()
		waitFor(t, "another session", func() bool { id := c.SessionID(); return id != 0 && id != first })
		require.Len(t, e.Sessions(), 2)
		_, stat, err := e.Get("/e")
		require.NoError(t, err)
		require.Equal(t, first, stat.EphemeralOwner, "the node lives as long as its session")

		time.Sleep(2 * timeout)
		_, _, err = e.Get("/e")
		require.ErrorIs(t, err, zktest.ErrNoNode)
		require.Len(t, e.Sessions(), 1)
	})
}

func TestKeeperEndsTheConnectionInPlaceOfAContainer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Personality: zktest.Keeper})
		c := connect(t, e, timeout)
		_, err := c.CreateContainer("/c", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrConnectionClosed)
		_, _, err = e.Get("/c")
		require.ErrorIs(t, err, zktest.ErrNoNode)
	})
}
