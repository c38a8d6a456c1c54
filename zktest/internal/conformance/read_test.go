// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/binary"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var reads = []scenario{
	{"children come with a Stat or without", func(s *stage) {
		a := s.session("a")
		for _, path := range []string{"/stage/b", "/stage/a", "/stage/a/c", "/stage/c"} {
			a.do(create(path, wire.Persistent))
		}
		for _, path := range []string{root, "/stage/a", "/stage/a/c", "/stage/missing", "/stage/a/missing"} {
			a.do(names(path))
			a.do(children(path))
		}
	}},
	{"getEphemerals lists the session's own below a prefix", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/stage/p", wire.Persistent))
		for _, path := range []string{"/stage/e", "/stage/ee", "/stage/p/e", "/stage/p/s-"} {
			a.do(create(path, wire.EphemeralSequential))
		}
		b.do(create("/stage/b", wire.Ephemeral))
		for _, prefix := range []string{"", "/", root, "/stage/", "/stage/e", "/stage/p", "/stage/p/", "/stage/missing", "stage", "/stage/b", "/zookeeper"} {
			a.do(wire.GetEphemerals{Prefix: prefix})
			b.do(wire.GetEphemerals{Prefix: prefix})
		}
	}},
	{"getAllChildrenNumber counts what is below", func(s *stage) {
		a := s.session("a")
		for _, path := range []string{"/stage/n", "/stage/n/a", "/stage/n/a/a", "/stage/n/b", "/stage/nn", "/stage/n/a/e"} {
			a.do(create(path, wire.Persistent))
		}
		a.do(createACL("/stage/closed", acl("world", "anyone", wire.PermWrite)))
		for _, path := range []string{root, "/stage/n", "/stage/n/a", "/stage/n/b", "/stage/missing", "/stage/n/", "stage", "/stage/closed"} {
			a.do(wire.GetAllChildrenNumber{Path: path})
		}
	}},
	{"sync answers with the path, whatever it is", func(s *stage) {
		a := s.session("a")
		for _, path := range []string{root, "/stage/missing", "", "stage", "/stage/\x00", "/"} {
			a.do(wire.Sync{Path: path})
		}
	}},
	{"replies carry the xid of the request, whatever it is", func(s *stage) {
		a := s.session("a")
		for _, xid := range []int32{0, 0, -3, -5, 1 << 30, -1 << 31, 7, 7} {
			s.note("xid %d", xid)
			a.post(xid, exists(root))
			a.until(xid)
		}
		for _, req := range []any{wire.Ping{}, auth("digest", "a:b"), wire.SetWatches{Data: []string{root}}} {
			s.note("%s with xid 55", describe(req))
			a.post(55, req)
			a.skim()
		}
	}},
	{"requests with the xid of an event, a ping or a credential", func(s *stage) {
		for i, xid := range []int32{wire.XidWatchEvent, wire.XidPing, wire.XidAuth, wire.XidSetWatches} {
			p := s.stranger(fmt.Sprint("p", i))
			p.connect(longest)
			p.dumb = true
			s.note("xid %d", xid)
			p.post(xid, create(fmt.Sprint("/stage/n", i), wire.Persistent))
			p.skim()
		}
	}},
	{"an operation that is none", func(s *stage) {
		for _, op := range []wire.Op{10, 23, 42, 99, 108, 999, wire.OpNotification, wire.OpError, -2, -12, -1 << 31} {
			p := s.session(fmt.Sprint("p", int32(op)))
			p.do(rawclient.Raw{Op: op})
			p.do(exists(root))
		}
		a := s.session("a")
		a.do(children(root))
	}},
	{"an operation that is none, with a path in it", func(s *stage) {
		for _, op := range []wire.Op{10, 23, 108, wire.OpNotification, wire.OpError} {
			p := s.session(fmt.Sprint("p", int32(op)))
			p.do(rawclient.Raw{Op: op, Put: func(w *wire.Writer) { w.String(root) }})
			p.do(exists(root))
		}
	}},
	{"deleteContainer is a client's to send, too", func(s *stage) {
		a := s.session("a")
		deleteContainer := func(path string) rawclient.Raw {
			return rawclient.Raw{Op: wire.OpDeleteContainer, Put: func(w *wire.Writer) { // without its length, as the server sends it to itself
				for i := 0; i < len(path); i += 4 {
					w.Int32(int32(binary.BigEndian.Uint32([]byte(path[i : i+4]))))
				}
			}}
		}
		a.do(createContainer("/stage/c"))
		a.do(create("/stage/c/c", wire.Persistent))
		a.do(create("/stage/n", wire.Persistent))
		a.do(deleteContainer("/stage/c")) // which keeps its child, or it would be reaped at a time of the server's choosing
		a.do(createContainer("/stage/d"))
		a.do(deleteContainer("/stage/d"))
		a.do(deleteContainer("/stage/n"))
		a.do(deleteContainer("/stage/missed/no"))
		a.do(deleteContainer("none"))
	}},
	{"reconfig is refused", func(s *stage) {
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
