// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var changes = []scenario{
	{"setData wants the version that it names", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		for _, version := range []int32{0, 0, 1, 5, -1, -2, 2, 3} {
			a.do(set("/stage/n", version))
			a.do(get("/stage/n"))
		}
		a.do(set("/stage/missing", -1))
		a.do(set("/stage/missing", 0))
		a.do(exists(root))
	}},
	{"delete wants the version that it names, and no children", func(s *stage) {
		a := s.session("a")
		for _, version := range []int32{1, -2, 0} {
			a.do(create("/stage/n", wire.Persistent))
			a.do(deletion("/stage/n", version))
			a.do(exists(root))
		}
		a.do(create("/stage/n", wire.Persistent))
		a.do(set("/stage/n", -1))
		a.do(deletion("/stage/n", 0))
		a.do(create("/stage/n/n", wire.Persistent))
		a.do(deletion("/stage/n", 0))
		a.do(deletion("/stage/n", 1))
		a.do(deletion("/stage/n", -1))
		a.do(deletion("/stage/n/n", 0))
		a.do(deletion("/stage/n", 1))
		a.do(deletion("/stage/n", 1))
		a.do(deletion("/stage/missing/n", -1))
		a.do(exists(root))
	}},
	{"setACL wants the ACL's version", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		a.do(set("/stage/n", -1))
		for _, version := range []int32{0, 0, 1, 7, -1, -2, 2} {
			a.do(setACL("/stage/n", version, wire.World...))
			a.do(getACL("/stage/n"))
		}
		a.do(setACL("/stage/missing", -1, wire.World...))
		a.do(getACL("/stage/missing"))
		a.do(setACL("/stage/n", -1))
		a.do(setACL("/stage/n", 9, acl("bogus", "x", wire.PermAll)))
	}},
	{"check outside of a transaction is a change that is refused", func(s *stage) { // one that is not: see differences
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		a.do(check("/stage/n", 1))
		a.do(check("/stage/missing", -1))
		a.do(exists("/stage/n"))
	}},
	{"check in a transaction wants the version", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		for _, version := range []int32{-2, -1, 0, 1} {
			a.do(multi(check("/stage/n", version)))
		}
		a.do(set("/stage/n", -1))
		a.do(multi(check("/stage/n", 0)))
		a.do(multi(check("/stage/n", 1)))
		a.do(multi(check("/stage/missing", -1)))
		a.do(exists("/stage/n"))
	}},
	{"each kind of change shows in the Stat of the node and its parent", func(s *stage) {
		a := s.session("a")
		b := s.session("b")
		for _, step := range []any{
			create2("/stage/n", wire.Persistent), create("/stage/n/e", wire.Ephemeral), set("/stage/n/e", 0),
			set("/stage/n", -1), setACL("/stage/n", -1, wire.World...), create("/stage/n/s", wire.PersistentSequential),
			set("/stage/n", 1), deletion("/stage/n/e", 1), setACL("/stage/n", 1, wire.World...),
		} {
			a.do(step)
			b.do(exists("/stage/n"))
			b.do(getACL("/stage/n"))
			b.do(exists("/stage/n/e"))
			b.do(children(root))
		}
	}},
	{"the time of a change is that of its transaction", func(s *stage) {
		a := s.session("a")
		made := a.do(create2("/stage/n", wire.Persistent))
		body, err := made.Reply(wire.OpCreate2)
		require.NoError(s.t, err)
		before := *body.Stat
		s.note("mtime %s ctime", order(before.Ctime, before.Mtime))
		for _, req := range []any{
			set("/stage/n", -1), setACL("/stage/n", -1, wire.World...), create("/stage/n/n", wire.Persistent), deletion("/stage/n/n", -1), set("/stage/n", 99),
			multi(set("/stage/n", -1), create2("/stage/m", wire.Ephemeral)), multi(set("/stage/n", -1), check("/stage/n", 99)), get("/stage/n"),
		} {
			s.wait()
			a.do(req)
			after := s.peek(a, "/stage/n")
			s.note("ctime %s, mtime %s", order(before.Ctime, after.Ctime), order(before.Mtime, after.Mtime))
			before = after
		}
		m := s.peek(a, "/stage/m")
		s.note("the other's ctime %s, its mtime %s", order(before.Mtime, m.Ctime), order(before.Mtime, m.Mtime))
	}},
	{"a refused change consumes a zxid and a read does not", func(s *stage) {
		a := s.session("a")
		for _, step := range []any{
			deletion("/stage/missing", -1), set("/stage/missing", -1), create(root, wire.Persistent), create("", wire.Persistent),
			create("/stage/x", 77), setACL("/stage/missing", -1, wire.World...), multi(check("/stage/missing", -1)), multi(),
			exists("/stage/missing"), get("/stage/missing"), getACL("/stage/missing"), children("/stage/missing"), names("/stage/missing"),
			exists(root), get(root), getACL(root), children(root),
			wire.Sync{Path: root},
			wire.Ping{},
			wire.WhoAmI{},
			wire.GetEphemerals{Prefix: "/"},
			wire.GetAllChildrenNumber{Path: root},
			multiRead(get(root)),
			wire.AddWatch{Path: root},
			wire.CheckWatches{Path: root, Type: 3},
			wire.RemoveWatches{Path: root, Type: 3},
			auth("digest", "a:b"),
			wire.SetWatches{},
		} {
			a.do(step)
			a.do(wire.Ping{})
		}
	}},
	{"the server's own nodes", func(s *stage) {
		a := s.session("a")
		for _, path := range []string{"/zookeeper", "/zookeeper/quota"} {
			before := s.peek(a, path)
			a.do(names(path))
			a.do(hidden{getACL(path)})
			a.do(deletion(path, -1))
			a.do(create(path, wire.Persistent))
			a.do(create("/zookeeper/stage", wire.Ephemeral))
			s.note("%s: %s", path, s.difference(before, s.peek(a, path)))
			a.do(deletion("/zookeeper/stage", -1))
			s.note("%s: %s", path, s.difference(before, s.peek(a, path)))
		}
		for _, req := range []any{
			hidden{exists("/zookeeper/config")},
			getACL("/zookeeper/config"), children("/zookeeper/config"), set("/zookeeper/config", -1),
			setACL("/zookeeper/config", -1, wire.World...), create("/zookeeper/config/x", wire.Persistent), deletion("/zookeeper/config", -1),
			deletion("/zookeeper/config/x", -1), deletion("/", -1), create("/", wire.Persistent), multi(deletion("/", -1)), multi(create("/", wire.Persistent)),
			multi(deletion("/zookeeper", -1)),
		} {
			a.do(req)
		}
	}},
	{"the root is a node like others", func(s *stage) {
		a := s.session("a")
		before := s.peek(a, "/")
		compare := func() { s.note("the root: %s", s.difference(before, s.peek(a, "/"))) }
		compare()
		for _, req := range []any{
			create("/stage-beside", wire.Persistent), deletion("/stage-beside", -1), create("/stage-", wire.EphemeralSequential),
			setACL("/", -1, wire.World...), set("/", -2),
		} {
			a.ask(hidden{req})
			compare()
		}
		empty := s.peek(a, "")
		s.note("the empty path: %s", s.difference(before, empty))
	}},
}
