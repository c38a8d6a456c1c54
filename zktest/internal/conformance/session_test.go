// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"math"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var sessions = []scenario{
	{"the session timeout is clamped to the server's bounds", func(s *run) {
		for i, asked := range []int32{
			math.MinInt32, -1, 0, 1, s.minTimeout - 1, s.minTimeout, s.minTimeout + 1, 5000, s.maxTimeout - 1, s.maxTimeout, s.maxTimeout + 1, math.MaxInt32,
		} {
			p := s.dial(fmt.Sprint("p", i))
			p.connect(asked)
			p.closeSession()
		}
	}},
	{"a client attaches to a session again with its password", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/e", wire.Ephemeral))
		a.disconnect()
		b := s.dial("b")
		b.attach(a)
		b.do(wire.GetEphemerals{Prefix: "/"})
		b.do(set("/probe/e", -1))
		b.do(create2("/probe/f", wire.Ephemeral))
		b.closeSession()
		c := s.session("c")
		c.do(children(root))
	}},
	{"attaching to a session negotiates its timeout again", func(s *run) {
		last := s.session("a")
		for i, asked := range []int32{5000, s.maxTimeout + 1, math.MinInt32, 0, s.minTimeout + 1, sessionTimeout} {
			p := s.dial(fmt.Sprint("p", i))
			p.attachFor(last, asked)
			last = p
		}
		last.do(exists(root))
	}},
	{"attaching with a shorter timeout makes the session expire earlier", func(s *run) {
		b, a := s.session("b"), s.dial("a")
		a.connect(s.maxTimeout)
		a.do(create("/probe/e", wire.Ephemeral))
		b.do(getW("/probe/e"))
		successor := s.dial("successor")
		successor.noPings = true
		successor.attachFor(a, s.minTimeout)
		b.awaitEvents(1)
		successor.awaitEnd()
		successor.sessionClosed = true
	}},
	{"attaching to a session elsewhere ends its old connection", func(s *run) {
		a := s.session("a")
		b := s.session("b")
		a.do(create("/probe/e", wire.Ephemeral))
		a.do(getW("/probe/e"))
		successor := s.dial("successor")
		successor.attach(a)
		b.do(set("/probe/e", -1))
		successor.do(exists("/probe/e"))
		again := s.dial("again")
		again.attach(successor)
		again.do(exists("/probe/e"))
		again.do(wire.GetEphemerals{Prefix: "/"})
		b.do(exists("/probe/e"))
	}},
	{"attaching with a wrong password is refused", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/e", wire.Ephemeral))
		wrong := append([]byte{}, a.password...)
		wrong[3] ^= 1
		for i, password := range [][]byte{wrong, a.password[:8], append(append([]byte{}, a.password...), 0), {}, nil, make([]byte, 16)} {
			p := s.dial(fmt.Sprint("p", i))
			p.handshake(wire.ConnectRequest{Timeout: sessionTimeout, Session: a.session, Password: password, KnowsReadOnly: true})
			p.awaitEnd()
		}
		successor := s.dial("successor")
		successor.attach(a)
		successor.do(exists("/probe/e"))
	}},
	{"attaching to an unknown session is refused", func(s *run) {
		for i, id := range []int64{1, -1, 0x0123456789abcdef, math.MinInt64} {
			for j, password := range [][]byte{make([]byte, 16), nil} {
				p := s.dial(fmt.Sprintf("p%d-%d", i, j))
				s.sessions = append(s.sessions, id)
				p.handshake(wire.ConnectRequest{Timeout: sessionTimeout, Session: id, Password: password, KnowsReadOnly: true})
				p.awaitEnd()
			}
		}
		a := s.session("a")
		a.closeSession()
		late := s.dial("late")
		late.attach(a)
		late.awaitEnd()
	}},
	{"a client that has seen a later zxid is rejected", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		for i, ahead := range []int64{0, 1, 2, 1000, math.MaxInt64 - s.lastZxid} {
			p := s.dial(fmt.Sprint("p", i))
			p.handshake(wire.ConnectRequest{Timeout: sessionTimeout, LastZxid: s.lastZxid + ahead, Password: make([]byte, 16), KnowsReadOnly: true})
			s.note("case %d", i)
		}
		successor := s.dial("successor")
		successor.handshake(wire.ConnectRequest{Timeout: sessionTimeout, LastZxid: s.lastZxid + 7, Session: a.session, Password: a.password, KnowsReadOnly: true})
		a.do(exists("/probe/n"))
		negative := s.dial("negative")
		negative.handshake(wire.ConnectRequest{Timeout: sessionTimeout, LastZxid: -5, Password: make([]byte, 16), KnowsReadOnly: true})
	}},
	{"closing a session answers and then ends the connection", func(s *run) {
		a := s.session("a")
		b := s.session("b")
		for i := range 3 {
			a.do(create(fmt.Sprint("/probe/e", i), wire.Ephemeral))
		}
		a.do(create("/probe/p", wire.Persistent))
		a.do(create("/probe/p/e", wire.Ephemeral))
		a.closeSession()
		b.do(children(root))
		b.do(children("/probe/p"))
	}},
	{"requests after the closing of a session are not carried out", func(s *run) {
		a := s.session("a")
		b := s.session("b")
		a.send(a.frame(100, create("/probe/e", wire.Ephemeral)), a.frame(101, wire.CloseSession{}))
		a.awaitEnd()
		a.sessionClosed = true
		b.do(children(root))
	}},
	{"requests in one write are answered in order", func(s *run) {
		a := s.session("a")
		b := s.session("b")
		b.do(childrenW(root))
		a.pipeline(
			create("/probe/n", wire.Persistent), get("/probe/n"), set("/probe/n", 0), get("/probe/n"), create("/probe/n", wire.Persistent), exists("/probe/n"),
			create2("/probe/n/s-", wire.EphemeralSequential), children("/probe/n"), wire.Sync{Path: root}, deletion("/probe/n", -1), multi(set("/probe/n", 1), check("/probe/n", 2)),
			getACL("/probe/n"), deletion("/probe/n/s-0000000000", 0), deletion("/probe/n", 2), exists("/probe/n"),
		)
		var many []any
		for range 300 {
			many = append(many, create("/probe/s-", wire.PersistentSequential), exists(root))
		}
		a.pipeline(many...)
	}},
	{"an old client does not know readOnly", func(s *run) {
		p := s.dial("p")
		p.handshake(wire.ConnectRequest{Timeout: sessionTimeout, Password: make([]byte, 16)})
		p.do(exists(root))
		successor := s.dial("successor")
		successor.handshake(wire.ConnectRequest{Timeout: sessionTimeout, Session: p.session, Password: p.password})
		successor.do(exists(root))
		readOnly := s.dial("readOnly")
		readOnly.handshake(wire.ConnectRequest{Timeout: sessionTimeout, Password: make([]byte, 16), KnowsReadOnly: true, ReadOnly: true})
		readOnly.do(create("/probe/n", wire.Persistent))
	}},
	{"the protocol's version and the first password do not matter", func(s *run) {
		for i, first := range []wire.ConnectRequest{
			{Protocol: 1}, {Protocol: -1}, {Password: nil}, {Password: []byte{}}, {Password: []byte("hello")}, {Password: make([]byte, 100)},
		} {
			first.Timeout, first.KnowsReadOnly = sessionTimeout, true
			p := s.dial(fmt.Sprint("p", i))
			p.handshake(first)
			p.do(exists(root))
		}
	}},
	{"a session that expires leaves nothing", func(s *run) {
		b, c := s.session("b"), s.session("c")
		a := s.dial("a")
		a.connect(s.minTimeout)
		a.do(create("/probe/e", wire.Ephemeral))
		a.do(create("/probe/n", wire.Persistent))
		b.do(getW("/probe/e"))
		c.do(childrenW(root))
		a.disconnect()
		b.awaitEvents(1)
		b.do(children(root))
		successor := s.dial("successor")
		successor.attach(a)
		successor.awaitEnd()
	}},
	{"a container is deleted after its last child, and one that never had any is not", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(createContainer("/probe/never"))
		a.do(createContainer("/probe/c"))
		a.do(create("/probe/c/child", wire.Ephemeral))
		b.do(getW("/probe/c"))
		b.do(childrenW(root))
		a.ask(deletion("/probe/c/child", -1))
		b.awaitEvents(2)
		b.do(children(root))
	}},
	{"a silent session is closed", func(s *run) {
		b := s.session("b")
		a := s.dial("a")
		a.noPings = true
		a.connect(s.minTimeout)
		a.do(create("/probe/e", wire.Ephemeral)) // it does not watch the node itself: see differences
		b.do(getW("/probe/e"))
		b.awaitEvents(1)
		a.awaitEnd()
		a.sessionClosed = true
		b.do(children(root))
	}},
}

// ttlScenarios need a real server with TTL nodes, which are not enabled by default.
var ttlScenarios = []scenario{
	{"a TTL node is deleted after its TTL, once it has no children", func(s *run) {
		a, b := s.session("a"), s.session("b")
		for _, path := range []string{"/probe/parent", "/probe/short"} {
			b.do(wire.AddWatch{Path: path})
		}
		a.do(createTTL("/probe/long", wire.PersistentWithTTL, 1<<39))
		// In one transaction: on a busy machine, the parent's TTL ends before another request.
		a.do(multi(createTTL("/probe/parent", wire.PersistentWithTTL, 600), create("/probe/parent/child", wire.Persistent)))
		a.ask(createTTL("/probe/short", wire.PersistentWithTTL, 300))
		b.awaitEvents(4) // parent created, its child, short created, short deleted
		b.do(children(root))
		a.ask(deletion("/probe/parent/child", -1))
		b.awaitEvents(6) // its child, parent deleted
		b.do(children(root))
	}},
	{"a TTL node can be written to and have children", func(s *run) {
		a := s.session("a")
		a.do(createTTL("/probe/n", wire.PersistentWithTTL, 1<<39))
		a.do(set("/probe/n", -1))
		a.do(createTTL("/probe/n/s-", wire.PersistentSequentialTTL, 1<<39))
		a.do(create("/probe/n/e", wire.Ephemeral))
		a.do(children("/probe/n"))
		a.do(multi(createTTL("/probe/n/m", wire.PersistentWithTTL, 1<<39), set("/probe/n/m", 0), deletion("/probe/n/e", 0)))
		a.do(children("/probe/n"))
	}},
}
