// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

const (
	// root is the parent of a scenario's nodes. It is created before and removed after each scenario.
	root = "/probe"
	// maxWait bounds the wait for an answer.
	maxWait = 10 * time.Second
	// sessionTimeout is the timeout that clients request, in milliseconds, within the bounds of both servers.
	sessionTimeout = 7_000
)

// keeper is the identity that cleans up: each ACL that restricts access has to include it.
var keeper = acl("digest", "keeper:bJagLr+GbmQ11XmvZMJMDyR5iaA=", wire.PermAll)

// A server is one of the two servers that are compared.
type server struct {
	name                   string
	address                string // of a socket
	dial                   func() (net.Conn, error)
	secure                 func(subject int) (net.Conn, error) // with the certificate of one of subjects
	minTimeout, maxTimeout int32                               // session timeouts that it grants, in milliseconds
	ttl                    bool                                // it has TTL nodes
}

// A run is one execution of a scenario on one server. It waits after each request until every connection has received
// the effects of the request, so that the transcript does not depend on speed.
type run struct {
	t      *testing.T
	server server
	transcript
	clients  []*client
	lastZxid int64 // in the most recent answer
	// patience bounds the wait for an answer.
	patience time.Duration
}

// record runs a scenario on a server and returns the transcript. No other client may write to the server in the
// meantime.
func record(t *testing.T, server server, body func(*run)) []string {
	t.Helper()
	s := newRun(t, server)
	admin := s.dial("admin")
	admin.connect(sessionTimeout)
	admin.do(auth("digest", "keeper:keeper"))
	admin.remove(root)
	created := admin.do(create2(root, wire.Persistent))
	require.Equal(t, wire.OK, created.Err, "%s: create %s: %v", server.name, root, s.lines)
	s.transcript = transcript{
		base: created.Zxid, times: map[int64]int64{}, sessions: []int64{admin.session}, minTimeout: server.minTimeout, maxTimeout: server.maxTimeout,
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s:\n%s", server.name, strings.Join(s.lines, "\n"))
		}
	}()
	body(s)
	lines := s.lines
	s.lines, s.patience = nil, maxWait
	for _, p := range s.clients[1:] {
		p.endSession()
	}
	admin.remove(root)
	admin.endSession()
	return lines
}

func newRun(t *testing.T, server server) *run {
	t.Helper()
	return &run{t: t, server: server, patience: maxWait, transcript: transcript{times: map[int64]int64{}}}
}

// session returns a client with a new session, and records the handshake.
func (s *run) session(name string) *client {
	p := s.dial(name)
	p.connect(sessionTimeout)
	return p
}

// dial returns a client with a connection on which nothing has been sent.
func (s *run) dial(name string) *client {
	s.t.Helper()
	return s.dialBy(name, s.server.dial)
}

func (s *run) dialBy(name string, dial func() (net.Conn, error)) *client {
	s.t.Helper()
	c, err := dial()
	require.NoError(s.t, err, "%s: dial", s.server.name)
	p := &client{run: s, name: name, conn: rawclient.New(c), xid: 1}
	s.clients = append(s.clients, p)
	return p
}

// note adds a line of the scenario to the transcript.
func (s *run) note(format string, args ...any) { s.add("# "+format, args...) }

// settle waits until each session has received all effects so far: a ping is answered after them. The pings are not
// recorded, unless the answer to one has a new zxid.
func (s *run) settle() {
	for _, p := range s.clients {
		if p.answersPings() {
			p.sendRequest(wire.XidPing, wire.Ping{})
		}
	}
	for _, p := range s.clients {
		if !p.answersPings() {
			continue
		}
		pong, ok := p.readUntil(wire.XidPing)
		if ok && pong.Zxid != s.lastZxid {
			s.lastZxid = pong.Zxid
			s.add("the zxid is now %s", s.zxid(pong.Zxid))
		}
	}
}

// nodeStat returns a node's Stat, without recording the answer.
func (s *run) nodeStat(p *client, path string) wire.Stat {
	s.t.Helper()
	reply := p.ask(hidden{exists(path)})
	body, err := reply.Reply(wire.OpExists)
	require.NoError(s.t, err)
	require.NotNil(s.t, body.Stat, "%s: %q: %v", s.server.name, path, reply.Err)
	return *body.Stat
}

// statDiff describes the changes of a node that existed before the scenario.
func (s *run) statDiff(before, after wire.Stat) string {
	moved := func(from, to int64) string {
		if from == to {
			return "="
		}
		return s.zxid(to)
	}
	return fmt.Sprintf("c%s m%s p%s ctime%+d mtime%+d v%+d cv%+d av%+d owner=%s len%+d kids%+d",
		moved(before.Czxid, after.Czxid), moved(before.Mzxid, after.Mzxid), moved(before.Pzxid, after.Pzxid),
		after.Ctime-before.Ctime, after.Mtime-before.Mtime,
		after.Version-before.Version, after.Cversion-before.Cversion, after.Aversion-before.Aversion, s.owner(after.EphemeralOwner),
		after.DataLength-before.DataLength, after.NumChildren-before.NumChildren)
}

// order returns how the time later compares with the time earlier.
func order(earlier, later int64) string {
	return [...]string{"before", "equal", "after"}[cmp.Compare(later, earlier)+1]
}

// advanceClock waits until the clock has advanced, so that the times of different transactions differ.
func (s *run) advanceClock() {
	for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
		runtime.Gosched()
	}
}
