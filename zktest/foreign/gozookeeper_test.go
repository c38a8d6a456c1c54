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

// methods are the exported methods of *zk.Conn, each with what it is tried by.
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
		require.True(t, known, "nothing tries %s", name)
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			c := &goClient{server: s, t: t, conn: s.connect(t)}
			c.make("", 0)
			try(c)
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
	t    *testing.T
	conn *zk.Conn
}

var anyone = zk.WorldACL(zk.PermAll)

func (c *goClient) at(name string) string { return c.root + name }

// make creates a node with data "data".
func (c *goClient) make(name string, flags int32) {
	c.t.Helper()
	made, err := c.conn.Create(c.at(name), []byte("data"), flags, anyone)
	require.NoError(c.t, err)
	if flags&zk.FlagSequence == 0 {
		require.Equal(c.t, c.at(name), made)
	}
}

func (c *goClient) stat(name string) *zk.Stat {
	c.t.Helper()
	exists, stat, err := c.conn.Exists(c.at(name))
	require.NoError(c.t, err)
	require.True(c.t, exists, name)
	return stat
}

// told requires that the watch tells of this change of this node.
func (c *goClient) told(watch <-chan zk.Event, kind zk.EventType, name string) {
	c.t.Helper()
	select {
	case event := <-watch:
		require.Equal(c.t, kind, event.Type)
		require.Equal(c.t, c.at(name), event.Path)
		require.NoError(c.t, event.Err)
	case <-bounded(c.t).Done():
		require.FailNow(c.t, "not told", "%v of %q", kind, name)
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
	c.told(gone, zk.EventNodeDeleted, "/own")
	_, err = c.conn.Create(c.at("/late"), nil, 0, anyone)
	require.Error(c.t, err)
}

func trySetLogger(c *goClient) {
	said := make(listener, 64)
	c.conn.SetLogger(said)
	c.conn.Close()
	select {
	case <-said:
	case <-bounded(c.t).Done():
		require.FailNow(c.t, "the connection's end was not logged")
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
	require.Len(c.t, acl, 2, "both that were presented")
}

// The members of an ensemble are fixed: a server that is not told otherwise refuses to change them.
func tryReconfig(c *goClient) {
	_, err := c.conn.Reconfig([]string{"server.1=127.0.0.1:1:2:participant;3"}, -1)
	require.ErrorIs(c.t, err, zk.ErrReconfigDisabled)
	_, err = c.conn.IncrementalReconfig([]string{"server.1=127.0.0.1:1:2:participant;3"}, nil, -1)
	require.ErrorIs(c.t, err, zk.ErrReconfigDisabled)
	c.stat("")
}
