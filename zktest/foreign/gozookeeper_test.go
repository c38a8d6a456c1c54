// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// methods are the exported methods of *zk.Conn, each with its test.
var methods = map[string]func(*goClient){
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
		require.True(t, known, "%s has no test", name)
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			c := &goClient{server: s, t: t, conn: s.connect(t)}
			c.make("", 0)
			try(c)
		})
	}
	require.Len(t, methods, conn.NumMethod())
}

// go-zookeeper's FLWSrvr is left out: it expects the date format of servers before 3.5, and cannot parse later answers.
func TestGoZooKeepersFourLetterWordsAreAnswered(t *testing.T) {
	s := serve(t)
	conn := s.connect(t)
	require.Equal(t, []bool{true}, zk.FLWRuok(s.addresses, maxWait))
	servers, _ := zk.FLWCons(s.addresses, maxWait) // always false: the asking connection has no session to parse
	require.Len(t, servers, 1)
	found := slices.IndexFunc(servers[0].Clients, func(c *zk.ServerClient) bool { return c.SessionID == conn.SessionID() })
	require.GreaterOrEqual(t, found, 0, "our session is among the connections")
	require.Equal(t, int32(4000), servers[0].Clients[found].Timeout, "milliseconds")
}

// A goClient is a connection with its own root node.
type goClient struct {
	*server
	t    *testing.T
	conn *zk.Conn
}

var anyone = zk.WorldACL(zk.PermAll)

func (c *goClient) at(name string) string { return c.root + name }

// make creates a node with data "data".
func (c *goClient) make(name string, flags int32) {
	c.t.Helper()
	path, err := c.conn.Create(c.at(name), []byte("data"), flags, anyone)
	require.NoError(c.t, err)
	if flags&zk.FlagSequence == 0 {
		require.Equal(c.t, c.at(name), path)
	}
}

func (c *goClient) stat(name string) *zk.Stat {
	c.t.Helper()
	exists, stat, err := c.conn.Exists(c.at(name))
	require.NoError(c.t, err)
	require.True(c.t, exists, name)
	return stat
}

// requireEvent requires that the watch fires for this change of this node.
func (c *goClient) requireEvent(watch <-chan zk.Event, kind zk.EventType, name string) {
	c.t.Helper()
	select {
	case event := <-watch:
		require.Equal(c.t, kind, event.Type)
		require.Equal(c.t, c.at(name), event.Path)
		require.NoError(c.t, event.Err)
	case <-bounded(c.t).Done():
		require.FailNow(c.t, "no event", "%v of %q", kind, name)
	}
}

func tryConnection(c *goClient) {
	require.Equal(c.t, zk.StateHasSession, c.conn.State())
	require.Contains(c.t, c.addresses, c.conn.Server())
	require.NotZero(c.t, c.conn.SessionID())
	c.make("/own", zk.FlagEphemeral)
	require.Equal(c.t, c.conn.SessionID(), c.stat("/own").EphemeralOwner)
}

func tryClose(c *goClient) {
	c.make("/own", zk.FlagEphemeral)
	other := c.connect(c.t)
	exists, _, gone, err := other.ExistsW(c.at("/own"))
	require.NoError(c.t, err)
	require.True(c.t, exists)
	c.conn.Close()
	c.requireEvent(gone, zk.EventNodeDeleted, "/own")
	_, err = c.conn.Create(c.at("/late"), nil, 0, anyone)
	require.Error(c.t, err)
}

func trySetLogger(c *goClient) {
	logged := make(lineLogger, 64)
	c.conn.SetLogger(logged)
	c.conn.Close()
	select {
	case <-logged:
	case <-bounded(c.t).Done():
		require.FailNow(c.t, "the connection's end was not logged")
	}
}

// A lineLogger is a logger that passes on its first lines.
type lineLogger chan string

func (l lineLogger) Printf(format string, args ...any) {
	select {
	case l <- fmt.Sprintf(format, args...):
	default:
	}
}

func tryAddAuth(c *goClient) {
	_, err := c.conn.Create(c.at("/secret"), nil, 0, zk.DigestACL(zk.PermAll, "ann", "pw"))
	require.NoError(c.t, err)
	_, _, err = c.conn.Get(c.at("/secret"))
	require.ErrorIs(c.t, err, zk.ErrNoAuth)
	require.NoError(c.t, c.conn.AddAuth("digest", []byte("ann:wrong")))
	_, _, err = c.conn.Get(c.at("/secret"))
	require.ErrorIs(c.t, err, zk.ErrNoAuth)
	require.NoError(c.t, c.conn.AddAuth("digest", []byte("ann:pw")))
	_, _, err = c.conn.Get(c.at("/secret"))
	require.NoError(c.t, err)
	_, err = c.conn.Create(c.at("/mine"), nil, 0, zk.AuthACL(zk.PermAll))
	require.NoError(c.t, err)
	acl, _, err := c.conn.GetACL(c.at("/mine"))
	require.NoError(c.t, err)
	require.Len(c.t, acl, 2, "both presented credentials")
}

// In a server's default configuration the members of an ensemble are fixed: it refuses to change them.
func tryReconfig(c *goClient) {
	_, err := c.conn.Reconfig([]string{"server.1=127.0.0.1:1:2:participant;3"}, -1)
	require.ErrorIs(c.t, err, zk.ErrReconfigDisabled)
	_, err = c.conn.IncrementalReconfig([]string{"server.1=127.0.0.1:1:2:participant;3"}, nil, -1)
	require.ErrorIs(c.t, err, zk.ErrReconfigDisabled)
	c.stat("")
}
