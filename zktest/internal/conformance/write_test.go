// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var changes = []scenario{
	{"setData requires the version that it names", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		for _, version := range []int32{0, 0, 1, 5, -1, -2, 2, 3} {
			a.do(set("/probe/n", version))
			a.do(get("/probe/n"))
		}
		a.do(set("/probe/missing", -1))
		a.do(set("/probe/missing", 0))
		a.do(exists(root))
	}},
	{"delete requires the version that it names, and no children", func(s *run) {
		a := s.session("a")
		for _, version := range []int32{1, -2, 0} {
			a.do(create("/probe/n", wire.Persistent))
			a.do(deletion("/probe/n", version))
			a.do(exists(root))
		}
		a.do(create("/probe/n", wire.Persistent))
		a.do(set("/probe/n", -1))
		a.do(deletion("/probe/n", 0))
		a.do(create("/probe/n/n", wire.Persistent))
		a.do(deletion("/probe/n", 0))
		a.do(deletion("/probe/n", 1))
		a.do(deletion("/probe/n", -1))
		a.do(deletion("/probe/n/n", 0))
		a.do(deletion("/probe/n", 1))
		a.do(deletion("/probe/n", 1))
		a.do(deletion("/probe/missing/n", -1))
		a.do(exists(root))
	}},
	{"setACL requires the ACL's version", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		a.do(set("/probe/n", -1))
		for _, version := range []int32{0, 0, 1, 7, -1, -2, 2} {
			a.do(setACL("/probe/n", version, wire.World...))
			a.do(getACL("/probe/n"))
		}
		a.do(setACL("/probe/missing", -1, wire.World...))
		a.do(getACL("/probe/missing"))
		a.do(setACL("/probe/n", -1))
		a.do(setACL("/probe/n", 9, acl("bogus", "x", wire.PermAll)))
	}},
	{"a refused check outside a transaction takes a zxid", func(s *run) { // for one that succeeds: see differences
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		a.do(check("/probe/n", 1))
		a.do(check("/probe/missing", -1))
		a.do(exists("/probe/n"))
	}},
	{"check in a transaction requires the version", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		for _, version := range []int32{-2, -1, 0, 1} {
			a.do(multi(check("/probe/n", version)))
		}
		a.do(set("/probe/n", -1))
		a.do(multi(check("/probe/n", 0)))
		a.do(multi(check("/probe/n", 1)))
		a.do(multi(check("/probe/missing", -1)))
		a.do(exists("/probe/n"))
	}},
	{"each kind of change shows in the Stat of the node and its parent", func(s *run) {
		a := s.session("a")
		b := s.session("b")
		for _, step := range []any{
			create2("/probe/n", wire.Persistent), create("/probe/n/e", wire.Ephemeral), set("/probe/n/e", 0),
			set("/probe/n", -1), setACL("/probe/n", -1, wire.World...), create("/probe/n/s", wire.PersistentSequential),
			set("/probe/n", 1), deletion("/probe/n/e", 1), setACL("/probe/n", 1, wire.World...),
		} {
			a.do(step)
			b.do(exists("/probe/n"))
			b.do(getACL("/probe/n"))
			b.do(exists("/probe/n/e"))
			b.do(children(root))
		}
	}},
	{"the time of a change is its transaction's", func(s *run) {
		a := s.session("a")
		made := a.do(create2("/probe/n", wire.Persistent))
		body, err := made.Reply(wire.OpCreate2)
		require.NoError(s.t, err)
		before := *body.Stat
		s.note("mtime %s ctime", order(before.Ctime, before.Mtime))
		for _, req := range []any{
			set("/probe/n", -1), setACL("/probe/n", -1, wire.World...), create("/probe/n/n", wire.Persistent), deletion("/probe/n/n", -1), set("/probe/n", 99),
			multi(set("/probe/n", -1), create2("/probe/m", wire.Ephemeral)), multi(set("/probe/n", -1), check("/probe/n", 99)), get("/probe/n"),
		} {
			s.advanceClock()
			a.do(req)
			after := s.nodeStat(a, "/probe/n")
			s.note("ctime %s, mtime %s", order(before.Ctime, after.Ctime), order(before.Mtime, after.Mtime))
			before = after
		}
		m := s.nodeStat(a, "/probe/m")
		s.note("the other node's ctime %s, mtime %s", order(before.Mtime, m.Ctime), order(before.Mtime, m.Mtime))
	}},
	{"a refused change consumes a zxid and a read does not", func(s *run) {
		a := s.session("a")
		for _, step := range []any{
			deletion("/probe/missing", -1), set("/probe/missing", -1), create(root, wire.Persistent), create("", wire.Persistent),
			create("/probe/x", 77), setACL("/probe/missing", -1, wire.World...), multi(check("/probe/missing", -1)), multi(),
			exists("/probe/missing"), get("/probe/missing"), getACL("/probe/missing"), children("/probe/missing"), names("/probe/missing"),
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
	{"the server's own nodes", func(s *run) {
		a := s.session("a")
		for _, path := range []string{"/zookeeper", "/zookeeper/quota"} {
			before := s.nodeStat(a, path)
			a.do(names(path))
			a.do(hidden{getACL(path)})
			a.do(deletion(path, -1))
			a.do(create(path, wire.Persistent))
			a.do(create("/zookeeper/probe", wire.Ephemeral))
			s.note("%s: %s", path, s.statDiff(before, s.nodeStat(a, path)))
			a.do(deletion("/zookeeper/probe", -1))
			s.note("%s: %s", path, s.statDiff(before, s.nodeStat(a, path)))
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
	{"the root is a node like any other", func(s *run) {
		a := s.session("a")
		before := s.nodeStat(a, "/")
		compare := func() { s.note("the root: %s", s.statDiff(before, s.nodeStat(a, "/"))) }
		compare()
		for _, req := range []any{
			create("/probe-beside", wire.Persistent), deletion("/probe-beside", -1), create("/probe-", wire.EphemeralSequential),
			setACL("/", -1, wire.World...), set("/", -2),
		} {
			a.ask(hidden{req})
			compare()
		}
		empty := s.nodeStat(a, "")
		s.note("the empty path: %s", s.statDiff(before, empty))
	}},
}
