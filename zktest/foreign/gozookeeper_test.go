// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// methods are the exported methods of *zk.Conn, each with what it is tried by.
var methods = map[string]func(*testing.T, *goClient){
	"AddAuth":                            tryAddAuth,
	"Children":                           tryChildren,
	"ChildrenW":                          tryChildrenW,
	"Close":                              tryClose,
	"Create":                             tryCreate,
	"CreateContainer":                    tryCreateContainer,
	"CreateProtectedEphemeralSequential": tryCreateProtected,
	"CreateTTL":                          tryCreateTTL,
	"Delete":                             tryDelete,
	"Exists":                             tryExists,
	"ExistsW":                            tryExistsW,
	"Get":                                tryGet,
	"GetACL":                             tryACL,
	"GetW":                               tryGetW,
	"IncrementalReconfig":                tryReconfig,
	"Multi":                              tryMulti,
	"Reconfig":                           tryReconfig,
	"Server":                             tryConnection,
	"SessionID":                          tryConnection,
	"Set":                                trySet,
	"SetACL":                             tryACL,
	"SetLogger":                          trySetLogger,
	"State":                              tryConnection,
	"Sync":                               trySync,
}

func TestEveryMethodOfGoZooKeepersConnectionWorks(t *testing.T) {
	conn := reflect.TypeFor[*zk.Conn]()
	for i := range conn.NumMethod() {
		name := conn.Method(i).Name
		try, known := methods[name]
		require.True(t, known, "nothing tries %s", name)
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			c := &goClient{server: s, conn: s.connect(t), root: s.root}
			c.make(t, "", 0)
			try(t, c)
		})
	}
	require.Len(t, methods, conn.NumMethod())
}

// Its FLWSrvr is not among them: it looks for a date as servers before 3.5 wrote it, and reads no other's answer.
func TestGoZooKeepersFourLetterWordsAreAnswered(t *testing.T) {
	s := serve(t)
	conn := s.connect(t)
	require.Equal(t, []bool{true}, zk.FLWRuok(s.addresses, bound))
	servers, _ := zk.FLWCons(s.addresses, bound) // false always: the connection that asks has no session to be read
	require.Len(t, servers, 1)
	found := slices.IndexFunc(servers[0].Clients, func(c *zk.ServerClient) bool { return c.SessionID == conn.SessionID() })
	require.GreaterOrEqual(t, found, 0, "our session is among the connections")
	require.Equal(t, int32(4000), servers[0].Clients[found].Timeout, "milliseconds")
}

// A goClient is a connection with a node of its own to work below.
type goClient struct {
	*server
	conn *zk.Conn
	root string
}

var anyone = zk.WorldACL(zk.PermAll)

func (c *goClient) at(name string) string { return c.root + name }

// make creates a node with data "data".
func (c *goClient) make(t *testing.T, name string, flags int32) {
	t.Helper()
	made, err := c.conn.Create(c.at(name), []byte("data"), flags, anyone)
	require.NoError(t, err)
	if flags&zk.FlagSequence == 0 {
		require.Equal(t, c.at(name), made)
	}
}

func (c *goClient) stat(t *testing.T, name string) *zk.Stat {
	t.Helper()
	exists, stat, err := c.conn.Exists(c.at(name))
	require.NoError(t, err)
	require.True(t, exists, name)
	return stat
}

// told requires that the watch tells of this change of this node.
func (c *goClient) told(t *testing.T, watch <-chan zk.Event, kind zk.EventType, name string) {
	t.Helper()
	select {
	case event := <-watch:
		require.Equal(t, kind, event.Type)
		require.Equal(t, c.at(name), event.Path)
		require.NoError(t, event.Err)
	case <-bounded(t).Done():
		require.FailNow(t, "not told", "%v of %q", kind, name)
	}
}

func tryConnection(t *testing.T, c *goClient) {
	require.Equal(t, zk.StateHasSession, c.conn.State())
	require.Contains(t, c.addresses, c.conn.Server())
	require.NotZero(t, c.conn.SessionID())
	c.make(t, "/own", zk.FlagEphemeral)
	require.Equal(t, c.conn.SessionID(), c.stat(t, "/own").EphemeralOwner)
}

func tryClose(t *testing.T, c *goClient) {
	c.make(t, "/own", zk.FlagEphemeral)
	other := c.connect(t)
	exists, _, gone, err := other.ExistsW(c.at("/own"))
	require.NoError(t, err)
	require.True(t, exists)
	c.conn.Close()
	c.told(t, gone, zk.EventNodeDeleted, "/own")
	_, err = c.conn.Create(c.at("/late"), nil, 0, anyone)
	require.Error(t, err)
}

func trySetLogger(t *testing.T, c *goClient) {
	said := make(listener, 64)
	c.conn.SetLogger(said)
	c.conn.Close()
	select {
	case <-said:
	case <-bounded(t).Done():
		require.FailNow(t, "the connection's end was not logged")
	}
}

// A listener is a logger for one who listens to its first lines.
type listener chan string

func (l listener) Printf(format string, args ...any) {
	select {
	case l <- fmt.Sprintf(format, args...):
	default:
	}
}

func tryCreate(t *testing.T, c *goClient) {
	c.make(t, "/plain", 0)
	c.make(t, "/ephemeral", zk.FlagEphemeral)
	for i, flags := range []int32{zk.FlagSequence, zk.FlagSequence | zk.FlagEphemeral} {
		made, err := c.conn.Create(c.at("/s-"), nil, flags, anyone)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%s/s-%010d", c.root, 2+i), made)
	}
	_, err := c.conn.Create(c.at("/plain"), nil, 0, anyone)
	require.ErrorIs(t, err, zk.ErrNodeExists)
	_, err = c.conn.Create(c.at("/no/where"), nil, 0, anyone)
	require.ErrorIs(t, err, zk.ErrNoNode)
	_, err = c.conn.Create(c.at("/ephemeral/child"), nil, 0, anyone)
	require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	_, err = c.conn.Create(c.at("/acl"), nil, 0, nil)
	require.ErrorIs(t, err, zk.ErrInvalidACL)
	_, err = c.conn.Create(c.at("/big"), make([]byte, 1<<20-200), 0, anyone)
	require.NoError(t, err)
}

func tryCreateContainer(t *testing.T, c *goClient) {
	made, err := c.conn.CreateContainer(c.at("/box"), []byte("x"), zk.FlagContainer, anyone)
	require.NoError(t, err)
	require.Equal(t, c.at("/box"), made)
	c.make(t, "/box/child", 0)
	if c.ensemble != nil {
		require.NoError(t, c.conn.Delete(c.at("/box/child"), -1))
		c.ensemble.Reap()
		exists, _, err := c.conn.Exists(c.at("/box"))
		require.NoError(t, err)
		require.False(t, exists, "an empty container goes")
	}
}

func tryCreateTTL(t *testing.T, c *goClient) {
	_, err := c.conn.CreateTTL(c.at("/ttl"), nil, zk.FlagTTL, anyone, time.Minute)
	require.Error(t, err, "TTL nodes are off, as in a server that is not configured")
	if c.ensemble == nil {
		return
	}
	s := &server{ensemble: zktest.StartWith(t, &zktest.Options{TTLNodes: true})}
	s.addresses = s.ensemble.Servers()
	conn := s.connect(t)
	made, err := conn.CreateTTL("/ttl", nil, zk.FlagTTL, anyone, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "/ttl", made)
}

func tryCreateProtected(t *testing.T, c *goClient) {
	made, err := c.conn.CreateProtectedEphemeralSequential(c.at("/n-"), []byte("x"), anyone)
	require.NoError(t, err)
	require.Regexp(t, `/_c_[0-9a-f]{32}-n-0000000000$`, made)
}

func tryDelete(t *testing.T, c *goClient) {
	c.make(t, "/parent", 0)
	c.make(t, "/parent/child", 0)
	require.ErrorIs(t, c.conn.Delete(c.at("/parent"), -1), zk.ErrNotEmpty)
	require.ErrorIs(t, c.conn.Delete(c.at("/parent/child"), 1), zk.ErrBadVersion)
	require.NoError(t, c.conn.Delete(c.at("/parent/child"), 0))
	require.NoError(t, c.conn.Delete(c.at("/parent"), -1))
	require.ErrorIs(t, c.conn.Delete(c.at("/parent"), -1), zk.ErrNoNode)
}

func tryExists(t *testing.T, c *goClient) {
	exists, stat, err := c.conn.Exists(c.at("/node"))
	require.NoError(t, err)
	require.False(t, exists)
	require.NotNil(t, stat)
	c.make(t, "/node", 0)
	c.make(t, "/node/child", 0)
	stat = c.stat(t, "/node")
	require.Equal(t, stat.Czxid, stat.Mzxid)
	require.Equal(t, c.stat(t, "/node/child").Czxid, stat.Pzxid)
	require.Equal(t, []int32{0, 1, 0, 4, 1},
		[]int32{stat.Version, stat.Cversion, stat.Aversion, stat.DataLength, stat.NumChildren})
	require.Equal(t, stat.Ctime, stat.Mtime)
}

func tryGet(t *testing.T, c *goClient) {
	c.make(t, "/node", 0)
	data, stat, err := c.conn.Get(c.at("/node"))
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
	require.Equal(t, c.stat(t, "/node"), stat)
	_, _, err = c.conn.Get(c.at("/nowhere"))
	require.ErrorIs(t, err, zk.ErrNoNode)
}

func trySet(t *testing.T, c *goClient) {
	c.make(t, "/node", 0)
	stat, err := c.conn.Set(c.at("/node"), []byte("more data"), 0)
	require.NoError(t, err)
	require.Equal(t, int32(1), stat.Version)
	require.Equal(t, c.stat(t, "/node"), stat)
	_, err = c.conn.Set(c.at("/node"), nil, 0)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	_, err = c.conn.Set(c.at("/nowhere"), nil, -1)
	require.ErrorIs(t, err, zk.ErrNoNode)
}

func tryChildren(t *testing.T, c *goClient) {
	c.make(t, "/a", 0)
	c.make(t, "/b", 0)
	children, stat, err := c.conn.Children(c.root)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b"}, children)
	require.Equal(t, c.stat(t, ""), stat)
	_, _, err = c.conn.Children(c.at("/nowhere"))
	require.ErrorIs(t, err, zk.ErrNoNode)
}

func tryChildrenW(t *testing.T, c *goClient) {
	children, stat, changed, err := c.conn.ChildrenW(c.root)
	require.NoError(t, err)
	require.Empty(t, children)
	require.Equal(t, c.stat(t, ""), stat)
	c.make(t, "/a", 0)
	c.told(t, changed, zk.EventNodeChildrenChanged, "")
	_, _, changed, err = c.conn.ChildrenW(c.at("/a"))
	require.NoError(t, err)
	require.NoError(t, c.conn.Delete(c.at("/a"), -1))
	c.told(t, changed, zk.EventNodeDeleted, "/a")
}

func tryExistsW(t *testing.T, c *goClient) {
	exists, _, changed, err := c.conn.ExistsW(c.at("/node"))
	require.NoError(t, err)
	require.False(t, exists)
	c.make(t, "/node", 0)
	c.told(t, changed, zk.EventNodeCreated, "/node")
	exists, _, changed, err = c.conn.ExistsW(c.at("/node"))
	require.NoError(t, err)
	require.True(t, exists)
	require.NoError(t, c.conn.Delete(c.at("/node"), -1))
	c.told(t, changed, zk.EventNodeDeleted, "/node")
}

func tryGetW(t *testing.T, c *goClient) {
	c.make(t, "/node", 0)
	data, stat, changed, err := c.conn.GetW(c.at("/node"))
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
	require.Equal(t, c.stat(t, "/node"), stat)
	_, err = c.connect(t).Set(c.at("/node"), nil, -1)
	require.NoError(t, err)
	c.told(t, changed, zk.EventNodeDataChanged, "/node")
	_, _, _, err = c.conn.GetW(c.at("/nowhere"))
	require.ErrorIs(t, err, zk.ErrNoNode)
}

func tryACL(t *testing.T, c *goClient) {
	c.make(t, "/node", 0)
	acl, stat, err := c.conn.GetACL(c.at("/node"))
	require.NoError(t, err)
	require.Equal(t, anyone, acl)
	require.Equal(t, c.stat(t, "/node"), stat)
	readers := []zk.ACL{{Perms: zk.PermRead, Scheme: "ip", ID: "127.0.0.0/8"}, {Perms: zk.PermAdmin, Scheme: "world", ID: "anyone"}}
	stat, err = c.conn.SetACL(c.at("/node"), readers, 0)
	require.NoError(t, err)
	require.Equal(t, c.stat(t, "/node"), stat)
	require.Equal(t, int32(1), stat.Aversion)
	acl, _, err = c.conn.GetACL(c.at("/node"))
	require.NoError(t, err)
	require.Equal(t, readers, acl)
	_, err = c.conn.SetACL(c.at("/node"), anyone, 0)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	_, err = c.conn.Set(c.at("/node"), nil, -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = c.conn.SetACL(c.at("/node"), []zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}}, -1)
	require.ErrorIs(t, err, zk.ErrInvalidACL)
}

func tryAddAuth(t *testing.T, c *goClient) {
	_, err := c.conn.Create(c.at("/secret"), nil, 0, zk.DigestACL(zk.PermAll, "ann", "pw"))
	require.NoError(t, err)
	_, _, err = c.conn.Get(c.at("/secret"))
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.NoError(t, c.conn.AddAuth("digest", []byte("ann:wrong")))
	_, _, err = c.conn.Get(c.at("/secret"))
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.NoError(t, c.conn.AddAuth("digest", []byte("ann:pw")))
	_, _, err = c.conn.Get(c.at("/secret"))
	require.NoError(t, err)
	_, err = c.conn.Create(c.at("/mine"), nil, 0, zk.AuthACL(zk.PermAll))
	require.NoError(t, err)
	acl, _, err := c.conn.GetACL(c.at("/mine"))
	require.NoError(t, err)
	require.Len(t, acl, 2, "both that were presented")
}

func tryMulti(t *testing.T, c *goClient) {
	c.make(t, "/old", 0)
	results, err := c.conn.Multi(
		&zk.CheckVersionRequest{Path: c.at("/old"), Version: 0},
		&zk.CreateRequest{Path: c.at("/new-"), Data: []byte("1"), Acl: anyone, Flags: zk.FlagSequence | zk.FlagEphemeral},
		&zk.SetDataRequest{Path: c.root, Data: []byte("2"), Version: 0},
		&zk.DeleteRequest{Path: c.at("/old"), Version: 0},
	)
	require.NoError(t, err)
	require.Len(t, results, 4)
	require.Equal(t, c.at("/new-0000000001"), results[1].String)
	require.Equal(t, int32(2), results[2].Stat.NumChildren, "as of that operation")
	require.Equal(t, c.stat(t, "/new-0000000001").Czxid, results[2].Stat.Mzxid, "one transaction has one zxid")
	require.Equal(t, int32(1), c.stat(t, "").NumChildren)

	results, err = c.conn.Multi(
		&zk.CreateRequest{Path: c.at("/never"), Acl: anyone},
		&zk.CheckVersionRequest{Path: c.root, Version: 7},
		&zk.DeleteRequest{Path: c.at("/new-0000000001"), Version: -1},
	)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	require.Len(t, results, 3)
	require.NoError(t, results[0].Error)
	require.ErrorIs(t, results[1].Error, zk.ErrBadVersion)
	require.Error(t, results[2].Error)
	children, _, err := c.conn.Children(c.root)
	require.NoError(t, err)
	require.Equal(t, []string{"new-0000000001"}, children)
}

func trySync(t *testing.T, c *goClient) {
	synced, err := c.conn.Sync(c.root)
	require.NoError(t, err)
	require.Equal(t, c.root, synced)
	_, err = c.conn.Sync(c.at("/nowhere"))
	require.NoError(t, err)
}

// The members of an ensemble are fixed: a server that is not told otherwise refuses to change them.
func tryReconfig(t *testing.T, c *goClient) {
	_, err := c.conn.Reconfig([]string{"server.1=127.0.0.1:1:2:participant;3"}, -1)
	require.ErrorIs(t, err, zk.ErrReconfigDisabled)
	_, err = c.conn.IncrementalReconfig([]string{"server.1=127.0.0.1:1:2:participant;3"}, nil, -1)
	require.ErrorIs(t, err, zk.ErrReconfigDisabled)
	c.stat(t, "")
}
