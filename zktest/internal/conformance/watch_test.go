// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// changeGroups are groups of changes for watches of /probe/n. Each group is made with fresh watches.
var changeGroups = [][]any{
	{set("/probe/n", -1)},
	{set("/probe/n", 77)},
	{setACL("/probe/n", -1, wire.World...)},
	{create("/probe/n/child", wire.Persistent)},
	{set("/probe/n/child", -1)},
	{create("/probe/n/child/child", wire.Ephemeral)},
	{deletion("/probe/n/child/child", -1)},
	{deletion("/probe/n/child", -1)},
	{deletion("/probe/n", 77)},
	{deletion("/probe/n", -1)},
	{create("/probe/n", 9)},
	{create("/probe/n", wire.Persistent)},
	{multi(set("/probe/n", -1), check("/probe/missing", -1))},
	{multi(set("/probe/n", -1), create("/probe/n/a", wire.Persistent), create("/probe/n/b", wire.Persistent))},
	{multi(deletion("/probe/n/a", -1), deletion("/probe/n/b", -1), deletion("/probe/n", -1), create("/probe/n", wire.Ephemeral), set("/probe/n", -1))},
	{multi(deletion("/probe/n", -1), create("/probe/n", wire.Persistent), deletion("/probe/n", -1))},
}

// watchScenario makes all changeGroups with these watches, set by the client that makes the changes and by another.
func watchScenario(name string, watches ...any) scenario {
	return scenario{name, func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/probe/n", wire.Persistent))
		for _, group := range changeGroups {
			for _, watch := range watches {
				a.do(watch)
				b.do(watch)
			}
			for _, change := range group {
				a.do(change)
			}
		}
	}}
}

var oneShot = []scenario{
	watchScenario("a data watch fires for each change", getW("/probe/n")),
	watchScenario("an exists watch fires for each change", existsW("/probe/n")),
	watchScenario("a children watch fires for each change", childrenW("/probe/n")),
	watchScenario("a getChildren watch fires for each change", namesW("/probe/n")),
	watchScenario("a multiRead sets no watches", multiRead(getW("/probe/n"), namesW("/probe/n"))),
	watchScenario("a watch set twice fires once", getW("/probe/n"), getW("/probe/n"), existsW("/probe/n")),
	watchScenario("watches of each kind on one node and its parent", getW("/probe/n"), existsW("/probe/n"), childrenW("/probe/n"), childrenW(root), getW(root)),
	{"a watch fires once", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		for _, watch := range []any{getW("/probe/n"), existsW("/probe/n")} {
			a.do(watch)
			a.do(set("/probe/n", -1))
			a.do(set("/probe/n", -1))
		}
		a.do(childrenW("/probe/n"))
		a.do(create("/probe/n/1", wire.Persistent))
		a.do(create("/probe/n/2", wire.Persistent))
	}},
	{"an event arrives before the reply that shows the change", func(s *run) {
		a, b := s.session("a"), s.session("b")
		b.do(existsW("/probe/n"))
		b.do(childrenW(root))
		a.ask(create("/probe/n", wire.Persistent))
		b.do(exists("/probe/n"))
		b.do(getW("/probe/n"))
		a.ask(set("/probe/n", -1))
		b.do(get("/probe/n"))
		b.do(getW("/probe/n"))
		b.do(childrenW(root))
		a.ask(multi(set("/probe/n", -1), create("/probe/m", wire.Persistent), deletion("/probe/n", -1)))
		b.do(children(root))
		b.pipeline(getW("/probe/m"), set("/probe/m", -1), get("/probe/m"), getW("/probe/m"), deletion("/probe/m", -1), exists("/probe/m"))
	}},
	{"a watch on a node that is deleted and created again", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		a.do(getW("/probe/n"))
		a.do(deletion("/probe/n", -1))
		a.do(create("/probe/n", wire.Persistent))
		a.do(set("/probe/n", -1))
		a.do(existsW("/probe/n"))
		a.do(multi(deletion("/probe/n", -1), create("/probe/n", wire.Persistent)))
		a.do(set("/probe/n", -1))
		a.do(childrenW("/probe/n"))
		a.do(multi(deletion("/probe/n", -1), create("/probe/n", wire.Persistent)))
		a.do(create("/probe/n/child", wire.Persistent))
	}},
	{"a read that fails sets no watch, except exists", func(s *run) {
		a := s.session("a")
		a.do(createACL("/probe/closed", acl("world", "anyone", wire.PermWrite)))
		for _, read := range []any{
			getW("/probe/n"), childrenW("/probe/n"), namesW("/probe/n"), getW("/probe/closed"), childrenW("/probe/closed"), existsW("/probe/m"),
		} {
			a.do(read)
		}
		a.do(set("/probe/closed", -1))
		a.do(create("/probe/n", wire.Persistent))
		a.do(set("/probe/n", -1))
		a.do(create("/probe/n/n", wire.Persistent))
		a.do(create("/probe/m", wire.Persistent))
		a.do(existsW("/probe/closed"))
		a.do(set("/probe/closed", -1))
	}},
	{"only sessions that may read a node receive its events", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(auth("digest", "keeper:keeper"))
		hide := []wire.ACL{acl("world", "anyone", wire.PermAll&^wire.PermRead), keeper}
		watchAll := func(paths ...string) {
			for _, p := range []*client{a, b} {
				for _, path := range paths {
					p.do(existsW(path))
					p.do(childrenW(path))
				}
			}
		}
		a.do(create("/probe/n", wire.Persistent))
		a.do(create("/probe/n/open", wire.Persistent))
		a.do(createACL("/probe/n/closed", hide...))
		watchAll(root, "/probe/n", "/probe/n/open", "/probe/n/closed")
		a.do(setACL("/probe/n", -1, hide...))
		a.do(set("/probe/n", -1))
		a.do(set("/probe/n/open", -1))
		a.do(set("/probe/n/closed", -1))
		a.do(create("/probe/n/open/child", wire.Persistent))
		watchAll("/probe/n", "/probe/n/open", "/probe/n/new", "/probe/n/hidden")
		b.do(wire.AddWatch{Path: root, Mode: 1})
		a.do(create("/probe/n/new", wire.Persistent))
		a.do(createACL("/probe/n/hidden", hide...))
		a.do(deletion("/probe/n/hidden", -1))
		a.do(deletion("/probe/n/new", -1))
		watchAll(root, "/probe/n", "/probe/n/closed")
		a.do(setACL("/probe/n/closed", -1, wire.World...))
		a.do(multi(deletion("/probe/n/closed", -1), deletion("/probe/n/open/child", -1), deletion("/probe/n/open", -1), deletion("/probe/n", -1)))
	}},
	{"an exists watch fires for a sequential name", func(s *run) {
		a := s.session("a")
		a.do(existsW("/probe/s-0000000001"))
		a.do(create("/probe/s-", wire.PersistentSequential))
		a.do(create("/probe/s-", wire.EphemeralSequential))
	}},
	{"watches on invalid paths", func(s *run) {
		for i, path := range []string{"", "probe", "/probe/", "/probe//n", "/probe/\x00"} {
			p := s.session(fmt.Sprint("p", i))
			p.do(hidden{existsW(path)})
			p.do(hidden{namesW(path)})
			p.do(wire.AddWatch{Path: path})
			p.do(create(fmt.Sprint("/probe/n", i), wire.Persistent))
		}
	}},
	{"watches end with the connection", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/probe/n", wire.Persistent))
		a.do(getW("/probe/n"))
		a.do(wire.AddWatch{Path: "/probe/n"})
		successor := s.dial("successor")
		successor.attach(a)
		b.do(set("/probe/n", -1))
		successor.do(get("/probe/n"))
	}},
	{"closing a session notifies all watchers of its nodes, and itself before the answer", func(s *run) {
		a, b, c := s.session("a"), s.session("b"), s.session("c")
		a.do(create("/probe/e", wire.Ephemeral))
		for _, p := range []*client{a, b} {
			p.do(getW("/probe/e"))
			p.do(childrenW(root))
		}
		c.do(existsW("/probe/e"))
		a.closeSession()
		b.do(children(root))
		c.do(exists("/probe/e"))
	}},
}

var persistent = []scenario{
	watchScenario("a persistent watch fires for each change", wire.AddWatch{Path: "/probe/n"}),
	watchScenario("a recursive watch fires for each change", wire.AddWatch{Path: "/probe/n", Mode: 1}),
	watchScenario("a recursive watch on the parent", wire.AddWatch{Path: root, Mode: 1}),
	watchScenario("a recursive watch on the root", wire.AddWatch{Path: "/", Mode: 1}),
	watchScenario("a persistent watch on the parent", wire.AddWatch{Path: root}),
	watchScenario("persistent and one-shot watches", wire.AddWatch{Path: "/probe/n"}, getW("/probe/n"), childrenW("/probe/n")),
	watchScenario("recursive and one-shot watches", wire.AddWatch{Path: "/probe/n", Mode: 1}, existsW("/probe/n"), childrenW("/probe/n")),
	watchScenario("recursive watches above and below", wire.AddWatch{Path: root, Mode: 1}, wire.AddWatch{Path: "/probe/n", Mode: 1}),
	watchScenario("persistent then recursive", wire.AddWatch{Path: "/probe/n"}, wire.AddWatch{Path: "/probe/n", Mode: 1}),
	watchScenario("recursive then persistent", wire.AddWatch{Path: "/probe/n", Mode: 1}, wire.AddWatch{Path: "/probe/n"}),
	{"a recursive watch covers descendants, not siblings", func(s *run) {
		a := s.session("a")
		a.do(wire.AddWatch{Path: "/probe/n", Mode: 1})
		for _, path := range []string{"/probe/n", "/probe/nn", "/probe/n/a", "/probe/n/a/b", "/probe/n/a/b/c"} {
			a.do(create(path, wire.Persistent))
			a.do(set(path, -1))
		}
		a.do(deletion("/probe/n/a/b/c", -1))
	}},
	{"a watch of an unknown mode is refused", func(s *run) {
		for _, mode := range []int32{2, -1, 3, 1 << 30} {
			p := s.session(fmt.Sprint("p", mode))
			p.do(wire.AddWatch{Path: root, Mode: mode})
			p.do(exists(root))
		}
	}},
	{"checkWatches finds the existing watches", func(s *run) {
		for kind := int32(0); kind <= 6; kind++ {
			for i, watch := range []any{exists(root), getW("/probe/n"), existsW("/probe/n"), childrenW("/probe/n"), existsW("/probe/m"), wire.AddWatch{Path: "/probe/n"}, wire.AddWatch{Path: "/probe/n", Mode: 1}} {
				p := s.session(fmt.Sprintf("p%d-%d", kind, i))
				p.do(hidden{create("/probe/n", wire.Persistent)})
				p.do(watch)
				p.do(wire.CheckWatches{Path: "/probe/n", Type: kind})
				p.do(wire.CheckWatches{Path: "/probe/m", Type: kind})
				p.closeSession()
			}
		}
	}},
	{"removeWatches removes the watches of a type", func(s *run) {
		other := s.session("other")
		for kind := int32(0); kind <= 6; kind++ {
			p := s.session(fmt.Sprint("p", kind))
			for _, req := range []any{
				wire.RemoveWatches{Path: "/probe/n", Type: kind},
				create("/probe/n", wire.Persistent), getW("/probe/n"), childrenW("/probe/n"),
				wire.RemoveWatches{Path: "/probe/n", Type: kind},
				set("/probe/n", -1), create("/probe/n/child", wire.Persistent),
				wire.AddWatch{Path: "/probe/n"},
				wire.RemoveWatches{Path: "/probe/n", Type: kind},
				set("/probe/n", -1), deletion("/probe/n/child", -1),
				wire.AddWatch{Path: "/probe/n", Mode: 1},
				wire.RemoveWatches{Path: "/probe/n", Type: kind},
				set("/probe/n", -1), create("/probe/n/child", wire.Persistent),
				existsW("/probe/m"),
				wire.RemoveWatches{Path: "/probe/m", Type: kind},
				create("/probe/m", wire.Persistent),
				deletion("/probe/m", -1), deletion("/probe/n/child", -1), deletion("/probe/n", -1),
			} {
				p.do(req)
			}
			p.endSession()
			other.removeQuietly("/probe/m", "/probe/n/child", "/probe/n")
		}
	}},
	{"checkWatches also finds the watches of other sessions", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/probe/n", wire.Persistent))
		for _, watch := range []any{getW("/probe/n"), childrenW("/probe/n"), wire.AddWatch{Path: "/probe/n", Mode: 1}, wire.AddWatch{Path: root, Mode: 1}} {
			a.do(watch)
			for kind := int32(1); kind <= 3; kind++ {
				b.do(wire.CheckWatches{Path: "/probe/n", Type: kind})
				b.do(wire.RemoveWatches{Path: "/probe/n", Type: kind})
			}
			a.do(wire.RemoveWatches{Path: "/probe/n", Type: 3})
		}
	}},
	{"removing a watch leaves another session's", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/probe/n", wire.Persistent))
		a.do(getW("/probe/n"))
		b.do(getW("/probe/n"))
		a.do(wire.RemoveWatches{Path: "/probe/n", Type: 3})
		a.do(set("/probe/n", -1))
	}},
}

var restored = []scenario{
	{"setWatches sends events for changes since its zxid", func(s *run) {
		a := s.session("a")
		first := a.do(create("/probe/old", wire.Persistent)).Zxid
		a.do(create("/probe/changed", wire.Persistent))
		middle := a.do(create("/probe/grown", wire.Persistent)).Zxid
		a.do(set("/probe/changed", -1))
		a.do(create("/probe/grown/child", wire.Persistent))
		a.do(create("/probe/new", wire.Persistent))
		last := a.do(setACL("/probe/old", -1, wire.World...)).Zxid
		paths := []string{"/probe/old", "/probe/changed", "/probe/grown", "/probe/new", "/probe/missing"}
		for i, since := range []int64{0, -1, first, middle, last, last + 1000} {
			for _, watches := range []wire.SetWatches{
				{Data: paths},
				{Exist: paths},
				{Child: paths},
				{Data: paths, Exist: paths, Child: paths},
				{Persistent: paths},
				{PersistentRecursive: paths},
				{Data: paths, Persistent: paths, PersistentRecursive: paths},
			} {
				p := s.session("p")
				watches.RelativeZxid = since
				s.note("since point %d", i)
				p.do(watches)
				p.do(exists("/probe/missing"))
				p.closeSession()
			}
		}
	}},
	{"restored watches fire as before", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		for _, upheaval := range changeGroups {
			b := s.session("b")
			b.do(wire.SetWatches{RelativeZxid: s.lastZxid, Data: []string{"/probe/n"}})
			c := s.session("c")
			c.do(wire.SetWatches{RelativeZxid: s.lastZxid, Exist: []string{"/probe/n"}})
			d := s.session("d")
			d.do(wire.SetWatches{RelativeZxid: s.lastZxid, Child: []string{"/probe/n", root}})
			e := s.session("e")
			e.do(wire.SetWatches{RelativeZxid: s.lastZxid, Persistent: []string{"/probe/n"}})
			f := s.session("f")
			f.do(wire.SetWatches{RelativeZxid: s.lastZxid, PersistentRecursive: []string{root}})
			for _, change := range upheaval {
				a.do(change)
			}
			for _, p := range []*client{b, c, d, e, f} {
				p.endSession()
			}
		}
	}},
	{"setWatches of nothing, and with another xid", func(s *run) {
		a := s.session("a")
		a.do(wire.SetWatches{})
		a.do(wire.SetWatches{Persistent: []string{}})
		a.pipeline(wire.SetWatches{Child: []string{root}}, create("/probe/n", wire.Persistent))
	}},
}
