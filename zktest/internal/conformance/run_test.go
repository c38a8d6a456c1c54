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
	// root is where a scenario plays. It is made before and removed after each.
	root = "/stage"
	// enough is how long any answer may take.
	enough = 10 * time.Second
	// longest is the session timeout that players ask for, within what both servers grant.
	longest = 7_000
)

// keeper is the identity that may clean up behind any ACL that names it.
var keeper = acl("digest", "keeper:bJagLr+GbmQ11XmvZMJMDyR5iaA=", wire.PermAll)

// A server is one of the two that are compared.
type server struct {
	name        string
	dial        func() (net.Conn, error)
	least, most int32 // session timeouts that it grants, in milliseconds
	ttl         bool  // it has TTL nodes
}

// A stage is where a scenario plays on one server. It waits after each request until every connection has received
// what the request caused, so that the transcript does not depend on how fast anything is.
type stage struct {
	t  *testing.T
	on server
	transcript
	cast []*player
	last int64 // zxid that an answer told last
	// patience is how long an answer may take.
	patience time.Duration
}

// perform plays a scenario on a server and returns the transcript. Nobody else may write to the server meanwhile.
func perform(t *testing.T, on server, play func(*stage)) []string {
	t.Helper()
	s := newStage(t, on)
	hand := s.stranger("stagehand")
	hand.connect(longest)
	hand.do(auth("digest", "keeper:keeper"))
	hand.remove(root)
	made := hand.do(create2(root, wire.Persistent))
	require.Equal(t, wire.OK, made.Err, "%s: cannot begin: %v", on.name, s.lines)
	s.transcript = transcript{
		base: made.Zxid, times: map[int64]int64{}, sessions: []int64{hand.session}, least: on.least, most: on.most,
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s:\n%s", on.name, strings.Join(s.lines, "\n"))
		}
	}()
	play(s)
	played := s.lines
	s.lines, s.patience = nil, enough
	for _, p := range s.cast[1:] {
		p.leave()
	}
	hand.remove(root)
	hand.leave()
	return played
}

func newStage(t *testing.T, on server) *stage {
	t.Helper()
	return &stage{t: t, on: on, patience: enough, transcript: transcript{times: map[int64]int64{}}}
}

// session opens a session, and writes down how.
func (s *stage) session(name string) *player {
	p := s.stranger(name)
	p.connect(longest)
	return p
}

// stranger is a connection on which nothing has been said.
func (s *stage) stranger(name string) *player {
	s.t.Helper()
	c, err := s.on.dial()
	require.NoError(s.t, err, "%s: dial", s.on.name)
	p := &player{s: s, name: name, conn: rawclient.New(c), xid: 1}
	s.cast = append(s.cast, p)
	return p
}

// note writes a line of the scenario's own.
func (s *stage) note(format string, args ...any) { s.add("# "+format, args...) }

// settle waits until each session has received all that was caused so far: a ping is answered after it. The pings
// are not written down, unless one tells a zxid that no answer told.
func (s *stage) settle() {
	for _, p := range s.cast {
		if p.speaks() {
			p.post(wire.XidPing, wire.Ping{})
		}
	}
	for _, p := range s.cast {
		if !p.speaks() {
			continue
		}
		pong, ok := p.until(wire.XidPing)
		if ok && pong.Zxid != s.last {
			s.last = pong.Zxid
			s.add("the zxid is now %s", s.zxid(pong.Zxid))
		}
	}
}

// peek is a node's Stat.
func (s *stage) peek(p *player, path string) wire.Stat {
	s.t.Helper()
	reply := p.ask(hidden{exists(path)})
	body, err := reply.Reply(wire.OpExists)
	require.NoError(s.t, err)
	require.NotNil(s.t, body.Stat, "%s: %q: %v", s.on.name, path, reply.Err)
	return *body.Stat
}

// difference tells of a node that was there before the scenario what has become of it.
func (s *stage) difference(before, after wire.Stat) string {
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

// order says how a later time compares with an earlier one.
func order(earlier, later int64) string {
	return [...]string{"before", "equal", "after"}[cmp.Compare(later, earlier)+1]
}

// wait lets the clock go on, so that times which are not of one transaction differ.
func (s *stage) wait() {
	for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
		runtime.Gosched()
	}
}
