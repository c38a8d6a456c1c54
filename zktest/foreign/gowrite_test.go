// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func tryCreate(c *goClient) {
	c.make("/plain", 0)
	c.make("/ephemeral", zk.FlagEphemeral)
	for i, flags := range []int32{zk.FlagSequence, zk.FlagSequence | zk.FlagEphemeral} {
		path, err := c.conn.Create(c.at("/s-"), nil, flags, anyone)
		require.NoError(c.t, err)
		require.Equal(c.t, fmt.Sprintf("%s/s-%010d", c.root, 2+i), path)
	}
	_, err := c.conn.Create(c.at("/plain"), nil, 0, anyone)
	require.ErrorIs(c.t, err, zk.ErrNodeExists)
	_, err = c.conn.Create(c.at("/no/where"), nil, 0, anyone)
	require.ErrorIs(c.t, err, zk.ErrNoNode)
	_, err = c.conn.Create(c.at("/ephemeral/child"), nil, 0, anyone)
	require.ErrorIs(c.t, err, zk.ErrNoChildrenForEphemerals)
	_, err = c.conn.Create(c.at("/acl"), nil, 0, nil)
	require.ErrorIs(c.t, err, zk.ErrInvalidACL)
	_, err = c.conn.Create(c.at("/big"), make([]byte, 1<<20-200), 0, anyone)
	require.NoError(c.t, err)
}

func tryCreateContainer(c *goClient) {
	path, err := c.conn.CreateContainer(c.at("/box"), []byte("x"), zk.FlagContainer, anyone)
	require.NoError(c.t, err)
	require.Equal(c.t, c.at("/box"), path)
	c.make("/box/child", 0)
	if c.ensemble != nil {
		require.NoError(c.t, c.conn.Delete(c.at("/box/child"), -1))
		c.ensemble.CheckContainers()
		exists, _, err := c.conn.Exists(c.at("/box"))
		require.NoError(c.t, err)
		require.False(c.t, exists, "an empty container is deleted")
	}
}

func tryCreateTTL(c *goClient) {
	_, err := c.conn.CreateTTL(c.at("/ttl"), nil, zk.FlagTTL, anyone, time.Minute)
	require.Error(c.t, err, "TTL nodes are disabled, as in a server's default configuration")
	if c.ensemble == nil {
		return
	}
	s := &server{ensemble: zktest.Start(c.t, &zktest.Options{TTLNodes: true})}
	s.addresses = s.ensemble.Addrs()
	conn := s.connect(c.t)
	path, err := conn.CreateTTL("/ttl", nil, zk.FlagTTL, anyone, time.Minute)
	require.NoError(c.t, err)
	require.Equal(c.t, "/ttl", path)
}

func tryCreateProtected(c *goClient) {
	path, err := c.conn.CreateProtectedEphemeralSequential(c.at("/n-"), []byte("x"), anyone)
	require.NoError(c.t, err)
	require.Regexp(c.t, `/_c_[0-9a-f]{32}-n-0000000000$`, path)
}

func tryDelete(c *goClient) {
	c.make("/parent", 0)
	c.make("/parent/child", 0)
	require.ErrorIs(c.t, c.conn.Delete(c.at("/parent"), -1), zk.ErrNotEmpty)
	require.ErrorIs(c.t, c.conn.Delete(c.at("/parent/child"), 1), zk.ErrBadVersion)
	require.NoError(c.t, c.conn.Delete(c.at("/parent/child"), 0))
	require.NoError(c.t, c.conn.Delete(c.at("/parent"), -1))
	require.ErrorIs(c.t, c.conn.Delete(c.at("/parent"), -1), zk.ErrNoNode)
}

func trySet(c *goClient) {
	c.make("/node", 0)
	stat, err := c.conn.Set(c.at("/node"), []byte("more data"), 0)
	require.NoError(c.t, err)
	require.Equal(c.t, int32(1), stat.Version)
	require.Equal(c.t, c.stat("/node"), stat)
	_, err = c.conn.Set(c.at("/node"), nil, 0)
	require.ErrorIs(c.t, err, zk.ErrBadVersion)
	_, err = c.conn.Set(c.at("/nowhere"), nil, -1)
	require.ErrorIs(c.t, err, zk.ErrNoNode)
}

func tryACL(c *goClient) {
	c.make("/node", 0)
	acl, stat, err := c.conn.GetACL(c.at("/node"))
	require.NoError(c.t, err)
	require.Equal(c.t, anyone, acl)
	require.Equal(c.t, c.stat("/node"), stat)
	readers := []zk.ACL{{Perms: zk.PermRead, Scheme: "ip", ID: "127.0.0.0/8"}, {Perms: zk.PermAdmin, Scheme: "world", ID: "anyone"}}
	stat, err = c.conn.SetACL(c.at("/node"), readers, 0)
	require.NoError(c.t, err)
	require.Equal(c.t, c.stat("/node"), stat)
	require.Equal(c.t, int32(1), stat.Aversion)
	acl, _, err = c.conn.GetACL(c.at("/node"))
	require.NoError(c.t, err)
	require.Equal(c.t, readers, acl)
	_, err = c.conn.SetACL(c.at("/node"), anyone, 0)
	require.ErrorIs(c.t, err, zk.ErrBadVersion)
	_, err = c.conn.Set(c.at("/node"), nil, -1)
	require.ErrorIs(c.t, err, zk.ErrNoAuth)
	_, err = c.conn.SetACL(c.at("/node"), []zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}}, -1)
	require.ErrorIs(c.t, err, zk.ErrInvalidACL)
}

func tryMulti(c *goClient) {
	c.make("/old", 0)
	results, err := c.conn.Multi(
		&zk.CheckVersionRequest{Path: c.at("/old"), Version: 0},
		&zk.CreateRequest{Path: c.at("/new-"), Data: []byte("1"), Acl: anyone, Flags: zk.FlagSequence | zk.FlagEphemeral},
		&zk.SetDataRequest{Path: c.root, Data: []byte("2"), Version: 0},
		&zk.DeleteRequest{Path: c.at("/old"), Version: 0},
	)
	require.NoError(c.t, err)
	require.Len(c.t, results, 4)
	require.Equal(c.t, c.at("/new-0000000001"), results[1].String)
	require.Equal(c.t, int32(2), results[2].Stat.NumChildren, "the Stat after that operation")
	require.Equal(c.t, c.stat("/new-0000000001").Czxid, results[2].Stat.Mzxid, "one transaction has one zxid")
	require.Equal(c.t, int32(1), c.stat("").NumChildren)

	results, err = c.conn.Multi(
		&zk.CreateRequest{Path: c.at("/never"), Acl: anyone},
		&zk.CheckVersionRequest{Path: c.root, Version: 7},
		&zk.DeleteRequest{Path: c.at("/new-0000000001"), Version: -1},
	)
	require.ErrorIs(c.t, err, zk.ErrBadVersion)
	require.Len(c.t, results, 3)
	require.NoError(c.t, results[0].Error)
	require.ErrorIs(c.t, results[1].Error, zk.ErrBadVersion)
	require.Error(c.t, results[2].Error)
	children, _, err := c.conn.Children(c.root)
	require.NoError(c.t, err)
	require.Equal(c.t, []string{"new-0000000001"}, children)
}
