// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func tryExists(c *goClient) {
	exists, stat, err := c.conn.Exists(c.at("/node"))
	require.NoError(c.t, err)
	require.False(c.t, exists)
	require.NotNil(c.t, stat)
	c.make("/node", 0)
	c.make("/node/child", 0)
	stat = c.stat("/node")
	require.Equal(c.t, stat.Czxid, stat.Mzxid)
	require.Equal(c.t, c.stat("/node/child").Czxid, stat.Pzxid)
	require.Equal(c.t, []int32{0, 1, 0, 4, 1},
		[]int32{stat.Version, stat.Cversion, stat.Aversion, stat.DataLength, stat.NumChildren})
	require.Equal(c.t, stat.Ctime, stat.Mtime)
}

func tryGet(c *goClient) {
	c.make("/node", 0)
	data, stat, err := c.conn.Get(c.at("/node"))
	require.NoError(c.t, err)
	require.Equal(c.t, "data", string(data))
	require.Equal(c.t, c.stat("/node"), stat)
	_, _, err = c.conn.Get(c.at("/nowhere"))
	require.ErrorIs(c.t, err, zk.ErrNoNode)
}

func tryChildren(c *goClient) {
	c.make("/a", 0)
	c.make("/b", 0)
	children, stat, err := c.conn.Children(c.root)
	require.NoError(c.t, err)
	require.ElementsMatch(c.t, []string{"a", "b"}, children)
	require.Equal(c.t, c.stat(""), stat)
	_, _, err = c.conn.Children(c.at("/nowhere"))
	require.ErrorIs(c.t, err, zk.ErrNoNode)
}

func tryChildrenW(c *goClient) {
	children, stat, changed, err := c.conn.ChildrenW(c.root)
	require.NoError(c.t, err)
	require.Empty(c.t, children)
	require.Equal(c.t, c.stat(""), stat)
	c.make("/a", 0)
	c.requireEvent(changed, zk.EventNodeChildrenChanged, "")
	_, _, changed, err = c.conn.ChildrenW(c.at("/a"))
	require.NoError(c.t, err)
	require.NoError(c.t, c.conn.Delete(c.at("/a"), -1))
	c.requireEvent(changed, zk.EventNodeDeleted, "/a")
}

func tryExistsW(c *goClient) {
	exists, _, changed, err := c.conn.ExistsW(c.at("/node"))
	require.NoError(c.t, err)
	require.False(c.t, exists)
	c.make("/node", 0)
	c.requireEvent(changed, zk.EventNodeCreated, "/node")
	exists, _, changed, err = c.conn.ExistsW(c.at("/node"))
	require.NoError(c.t, err)
	require.True(c.t, exists)
	require.NoError(c.t, c.conn.Delete(c.at("/node"), -1))
	c.requireEvent(changed, zk.EventNodeDeleted, "/node")
}

func tryGetW(c *goClient) {
	c.make("/node", 0)
	data, stat, changed, err := c.conn.GetW(c.at("/node"))
	require.NoError(c.t, err)
	require.Equal(c.t, "data", string(data))
	require.Equal(c.t, c.stat("/node"), stat)
	_, err = c.connect(c.t).Set(c.at("/node"), nil, -1)
	require.NoError(c.t, err)
	c.requireEvent(changed, zk.EventNodeDataChanged, "/node")
	_, _, _, err = c.conn.GetW(c.at("/nowhere"))
	require.ErrorIs(c.t, err, zk.ErrNoNode)
}

func trySync(c *goClient) {
	synced, err := c.conn.Sync(c.root)
	require.NoError(c.t, err)
	require.Equal(c.t, c.root, synced)
	_, err = c.conn.Sync(c.at("/nowhere"))
	require.NoError(c.t, err)
}
