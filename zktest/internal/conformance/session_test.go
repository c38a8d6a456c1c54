// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"math"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var sessions = []scenario{
	{"the session timeout is brought within the server's bounds", func(s *stage) {
		for i, asked := range []int32{
			math.MinInt32, -1, 0, 1, s.least - 1, s.least, s.least + 1, 5000, s.most - 1, s.most, s.most + 1, math.MaxInt32,
		} {
			p := s.stranger(fmt.Sprint("p", i))
			p.connect(asked)
			p.bye()
		}
	}},
	{"a session is taken up again with its password", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/e", wire.Ephemeral))
		a.hangUp()
		b := s.stranger("b")
		b.attach(a)
		b.do(wire.GetEphemerals{Prefix: "/"})
		b.do(set("/stage/e", -1))
		b.do(create2("/stage/f", wire.Ephemeral))
		b.bye()
		c := s.session("c")
		c.do(children(root))
	}},
	{"a session that is taken up elsewhere ends its old connection", func(s *stage) {
		a := s.session("a")
		b := s.session("b")
		a.do(create("/stage/e", wire.Ephemeral))
		a.do(getW("/stage/e"))
		heir := s.stranger("heir")
		heir.attach(a)
		b.do(set("/stage/e", -1))
		heir.do(exists("/stage/e"))
		again := s.stranger("again")
		again.attach(heir)
		again.do(exists("/stage/e"))
		again.do(wire.GetEphemerals{Prefix: "/"})
		b.do(exists("/stage/e"))
	}},
	{"a session is refused to a wrong password", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/e", wire.Ephemeral))
		wrong := append([]byte{}, a.password...)
		wrong[3] ^= 1
		for i, password := range [][]byte{wrong, a.password[:8], append(append([]byte{}, a.password...), 0), {}, nil, make([]byte, 16)} {
			p := s.stranger(fmt.Sprint("p", i))
			p.handshake(wire.ConnectRequest{Timeout: longest, Session: a.session, Password: password, KnowsReadOnly: true})
			p.awaitEnd()
		}
		heir := s.stranger("heir")
		heir.attach(a)
		heir.do(exists("/stage/e"))
	}},
	{"a session that is not known is refused", func(s *stage) {
		for i, id := range []int64{1, -1, 0x0123456789abcdef, math.MinInt64} {
			for j, password := range [][]byte{make([]byte, 16), nil} {
				p := s.stranger(fmt.Sprintf("p%d-%d", i, j))
				s.sessions = append(s.sessions, id)
				p.handshake(wire.ConnectRequest{Timeout: longest, Session: id, Password: password, KnowsReadOnly: true})
				p.awaitEnd()
			}
		}
		a := s.session("a")
		a.bye()
		late := s.stranger("late")
		late.attach(a)
		late.awaitEnd()
	}},
	{"a client that has seen a later zxid is sent away", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		for i, ahead := range []int64{0, 1, 2, 1000, math.MaxInt64 - s.last} {
			p := s.stranger(fmt.Sprint("p", i))
			p.handshake(wire.ConnectRequest{Timeout: longest, LastZxid: s.last + ahead, Password: make([]byte, 16), KnowsReadOnly: true})
			s.note("ahead by %d of those", i)
		}
		heir := s.stranger("heir")
		heir.handshake(wire.ConnectRequest{Timeout: longest, LastZxid: s.last + 7, Session: a.session, Password: a.password, KnowsReadOnly: true})
		a.do(exists("/stage/n"))
		negative := s.stranger("negative")
		negative.handshake(wire.ConnectRequest{Timeout: longest, LastZxid: -5, Password: make([]byte, 16), KnowsReadOnly: true})
	}},
	{"closing a session answers and then ends the connection", func(s *stage) {
		a := s.session("a")
		b := s.session("b")
		for i := range 3 {
			a.do(create(fmt.Sprint("/stage/e", i), wire.Ephemeral))
		}
		a.do(create("/stage/p", wire.Persistent))
		a.do(create("/stage/p/e", wire.Ephemeral))
		a.bye()
		b.do(children(root))
		b.do(children("/stage/p"))
	}},
	{"what follows the closing of a session is not done", func(s *stage) {
		a := s.session("a")
		b := s.session("b")
		a.send(a.frame(100, create("/stage/e", wire.Ephemeral)), a.frame(101, wire.CloseSession{}))
		a.awaitEnd()
		a.closed = true
		b.do(children(root))
	}},
	{"requests in one write are answered in order", func(s *stage) {
		a := s.session("a")
		b := s.session("b")
		b.do(childrenW(root))
		a.pipeline(
			create("/stage/n", wire.Persistent), get("/stage/n"), set("/stage/n", 0), get("/stage/n"), create("/stage/n", wire.Persistent), exists("/stage/n"),
			create2("/stage/n/s-", wire.EphemeralSequential), children("/stage/n"), wire.Sync{Path: root}, deletion("/stage/n", -1), multi(set("/stage/n", 1), check("/stage/n", 2)),
			getACL("/stage/n"), deletion("/stage/n/s-0000000000", 0), deletion("/stage/n", 2), exists("/stage/n"),
		)
		var many []any
		for range 300 {
			many = append(many, create("/stage/s-", wire.PersistentSequential), exists(root))
		}
		a.pipeline(many...)
	}},
	{"an old client does not know of readOnly", func(s *stage) {
		p := s.stranger("p")
		p.handshake(wire.ConnectRequest{Timeout: longest, Password: make([]byte, 16)})
		p.do(exists(root))
		heir := s.stranger("heir")
		heir.handshake(wire.ConnectRequest{Timeout: longest, Session: p.session, Password: p.password})
		heir.do(exists(root))
		readOnly := s.stranger("readOnly")
		readOnly.handshake(wire.ConnectRequest{Timeout: longest, Password: make([]byte, 16), KnowsReadOnly: true, ReadOnly: true})
		readOnly.do(create("/stage/n", wire.Persistent))
	}},
	{"the protocol's version and the first password do not matter", func(s *stage) {
		for i, first := range []wire.ConnectRequest{
			{Protocol: 1}, {Protocol: -1}, {Password: nil}, {Password: []byte{}}, {Password: []byte("hello")}, {Password: make([]byte, 100)},
		} {
			first.Timeout, first.KnowsReadOnly = longest, true
			p := s.stranger(fmt.Sprint("p", i))
			p.handshake(first)
			p.do(exists(root))
		}
	}},
	{"a session that expires leaves nothing", func(s *stage) {
		b, c := s.session("b"), s.session("c")
		a := s.stranger("a")
		a.connect(1000)
		a.do(create("/stage/e", wire.Ephemeral))
		a.do(create("/stage/n", wire.Persistent))
		b.do(getW("/stage/e"))
		c.do(childrenW(root))
		a.hangUp()
		b.awaitEvents(1)
		b.do(children(root))
		heir := s.stranger("heir")
		heir.attach(a)
		heir.awaitEnd()
	}},
	{"a container is reaped when its last child has gone, and one that never had any is not", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(createContainer("/stage/never"))
		a.do(createContainer("/stage/c"))
		a.do(create("/stage/c/child", wire.Ephemeral))
		b.do(getW("/stage/c"))
		b.do(childrenW(root))
		a.ask(deletion("/stage/c/child", -1))
		b.awaitEvents(2)
		b.do(children(root))
	}},
	{"a session that keeps silent is closed", func(s *stage) {
		b := s.session("b")
		a := s.stranger("a")
		a.dumb = true
		a.connect(1000)
		a.do(create("/stage/e", wire.Ephemeral)) // and does not watch it itself: see differences
		b.do(getW("/stage/e"))
		b.awaitEvents(1)
		a.awaitEnd()
		a.closed = true
		b.do(children(root))
	}},
}

// mortals are played where the real server has TTL nodes, which is not its default.
var mortals = []scenario{
	{"a node with a time to live goes after it, once it has no children", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		for _, path := range []string{"/stage/parent", "/stage/short"} {
			b.do(wire.AddWatch{Path: path})
		}
		a.do(createTTL("/stage/long", wire.PersistentWithTTL, 1<<39))
		a.do(createTTL("/stage/parent", wire.PersistentWithTTL, 600))
		a.do(create("/stage/parent/child", wire.Persistent))
		a.ask(createTTL("/stage/short", wire.PersistentWithTTL, 300))
		b.awaitEvents(4) // parent created, its child, short created, short deleted
		b.do(children(root))
		a.ask(deletion("/stage/parent/child", -1))
		b.awaitEvents(6) // its child, parent deleted
		b.do(children(root))
	}},
	{"a node with a time to live lives on as it is written to", func(s *stage) {
		a := s.session("a")
		a.do(createTTL("/stage/n", wire.PersistentWithTTL, 1<<39))
		a.do(set("/stage/n", -1))
		a.do(createTTL("/stage/n/s-", wire.PersistentSequentialTTL, 1<<39))
		a.do(create("/stage/n/e", wire.Ephemeral))
		a.do(children("/stage/n"))
		a.do(multi(createTTL("/stage/n/m", wire.PersistentWithTTL, 1<<39), set("/stage/n/m", 0), deletion("/stage/n/e", 0)))
		a.do(children("/stage/n"))
	}},
}
