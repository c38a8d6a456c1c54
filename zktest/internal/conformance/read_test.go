// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/binary"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var reads = []scenario{
	{"children are listed with a Stat or without", func(s *run) {
		a := s.session("a")
		for _, path := range []string{"/probe/b", "/probe/a", "/probe/a/c", "/probe/c"} {
			a.do(create(path, wire.Persistent))
		}
		for _, path := range []string{root, "/probe/a", "/probe/a/c", "/probe/missing", "/probe/a/missing"} {
			a.do(names(path))
			a.do(children(path))
		}
	}},
	{"getEphemerals lists the session's nodes below a prefix", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/probe/p", wire.Persistent))
		for _, path := range []string{"/probe/e", "/probe/ee", "/probe/p/e", "/probe/p/s-"} {
			a.do(create(path, wire.EphemeralSequential))
		}
		b.do(create("/probe/b", wire.Ephemeral))
		for _, prefix := range []string{"", "/", root, "/probe/", "/probe/e", "/probe/p", "/probe/p/", "/probe/missing", "probe", "/probe/b", "/zookeeper"} {
			a.do(wire.GetEphemerals{Prefix: prefix})
			b.do(wire.GetEphemerals{Prefix: prefix})
		}
	}},
	{"getAllChildrenNumber counts descendants", func(s *run) {
		a := s.session("a")
		for _, path := range []string{"/probe/n", "/probe/n/a", "/probe/n/a/a", "/probe/n/b", "/probe/nn", "/probe/n/a/e"} {
			a.do(create(path, wire.Persistent))
		}
		a.do(createACL("/probe/closed", acl("world", "anyone", wire.PermWrite)))
		for _, path := range []string{root, "/probe/n", "/probe/n/a", "/probe/n/b", "/probe/missing", "/probe/n/", "probe", "/probe/closed"} {
			a.do(wire.GetAllChildrenNumber{Path: path})
		}
	}},
	{"sync answers with any path", func(s *run) {
		a := s.session("a")
		for _, path := range []string{root, "/probe/missing", "", "probe", "/probe/\x00", "/"} {
			a.do(wire.Sync{Path: path})
		}
	}},
	{"replies carry the xid of the request, even an unusual one", func(s *run) {
		a := s.session("a")
		for _, xid := range []int32{0, 0, -3, -5, 1 << 30, -1 << 31, 7, 7} {
			s.note("xid %d", xid)
			a.sendRequest(xid, exists(root))
			a.readUntil(xid)
		}
		for _, req := range []any{wire.Ping{}, auth("digest", "a:b"), wire.SetWatches{Data: []string{root}}} {
			s.note("%s with xid 55", describe(req))
			a.sendRequest(55, req)
			a.readRest()
		}
	}},
	{"requests with the xid of an event, a ping or a credential", func(s *run) {
		for i, xid := range []int32{wire.XidWatchEvent, wire.XidPing, wire.XidAuth, wire.XidSetWatches} {
			p := s.dial(fmt.Sprint("p", i))
			p.connect(sessionTimeout)
			p.noPings = true
			s.note("xid %d", xid)
			p.sendRequest(xid, create(fmt.Sprint("/probe/n", i), wire.Persistent))
			p.readRest()
		}
	}},
	{"an unknown operation", func(s *run) {
		for _, op := range []wire.Op{10, 23, 42, 99, 108, 999, wire.OpNotification, wire.OpError, -2, -12, -1 << 31} {
			p := s.session(fmt.Sprint("p", int32(op)))
			p.ask(rawclient.Raw{Op: op})
			p.awaitEnd() // ZooKeeper closes the connection after the answer, and may answer a ping before
			p.do(exists(root))
		}
		a := s.session("a")
		a.do(children(root))
	}},
	{"an unknown operation with a path", func(s *run) {
		for _, op := range []wire.Op{10, 23, 108, wire.OpNotification, wire.OpError} {
			p := s.session(fmt.Sprint("p", int32(op)))
			p.ask(rawclient.Raw{Op: op, Put: func(w *wire.Writer) { w.String(root) }})
			p.awaitEnd()
			p.do(exists(root))
		}
	}},
	{"a client may send deleteContainer", func(s *run) {
		a := s.session("a")
		deleteContainer := func(path string) rawclient.Raw {
			return rawclient.Raw{Op: wire.OpDeleteContainer, Put: func(w *wire.Writer) { // without the length of the string, as the server sends it to itself
				for i := 0; i < len(path); i += 4 {
					w.Int32(int32(binary.BigEndian.Uint32([]byte(path[i : i+4]))))
				}
			}}
		}
		a.do(createContainer("/probe/c"))
		a.do(create("/probe/c/c", wire.Persistent))
		a.do(create("/probe/n", wire.Persistent))
		a.do(deleteContainer("/probe/c")) // it keeps its child; otherwise the server would delete it at an unpredictable time
		a.do(createContainer("/probe/d"))
		a.do(deleteContainer("/probe/d"))
		a.do(deleteContainer("/probe/n"))
		a.do(deleteContainer("/probe/missed/no"))
		a.do(deleteContainer("none"))
	}},
	{"reconfig is refused", func(s *run) {
		a := s.session("a")
		a.do(rawclient.Raw{Op: wire.OpReconfig, Put: func(w *wire.Writer) {
			w.String("server.2=127.0.0.1:1:2;3")
			w.String("")
			w.String("")
			w.Int64(-1)
		}})
		a.do(exists(root))
	}},
}
