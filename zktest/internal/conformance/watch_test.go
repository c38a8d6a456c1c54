// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// upheavals are the changes that watches of /stage/n are tried with. Each is made in turn with fresh watches.
var upheavals = [][]any{
	{set("/stage/n", -1)},
	{set("/stage/n", 77)},
	{setACL("/stage/n", -1, wire.World...)},
	{create("/stage/n/child", wire.Persistent)},
	{set("/stage/n/child", -1)},
	{create("/stage/n/child/child", wire.Ephemeral)},
	{deletion("/stage/n/child/child", -1)},
	{deletion("/stage/n/child", -1)},
	{deletion("/stage/n", 77)},
	{deletion("/stage/n", -1)},
	{create("/stage/n", 9)},
	{create("/stage/n", wire.Persistent)},
	{multi(set("/stage/n", -1), check("/stage/missing", -1))},
	{multi(set("/stage/n", -1), create("/stage/n/a", wire.Persistent), create("/stage/n/b", wire.Persistent))},
	{multi(deletion("/stage/n/a", -1), deletion("/stage/n/b", -1), deletion("/stage/n", -1), create("/stage/n", wire.Ephemeral), set("/stage/n", -1))},
	{multi(deletion("/stage/n", -1), create("/stage/n", wire.Persistent), deletion("/stage/n", -1))},
}

// watching plays all upheavals for one way to watch, by the one who makes the change and by another.
func watching(name string, watches ...any) scenario {
	return scenario{name, func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/stage/n", wire.Persistent))
		for _, upheaval := range upheavals {
			for _, watch := range watches {
				a.do(watch)
				b.do(watch)
			}
			for _, change := range upheaval {
				a.do(change)
			}
		}
	}}
}

var oneShot = []scenario{
	watching("a data watch tells of each change", getW("/stage/n")),
	watching("an exists watch tells of each change", existsW("/stage/n")),
	watching("a children watch tells of each change", childrenW("/stage/n")),
	watching("a getChildren watch tells of each change", namesW("/stage/n")),
	watching("a multiRead sets no watches", multiRead(getW("/stage/n"), namesW("/stage/n"))),
	watching("a watch set twice tells once", getW("/stage/n"), getW("/stage/n"), existsW("/stage/n")),
	watching("watches of each kind on one node and its parent", getW("/stage/n"), existsW("/stage/n"), childrenW("/stage/n"), childrenW(root), getW(root)),
	{"a watch tells once", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		for _, watch := range []any{getW("/stage/n"), existsW("/stage/n")} {
			a.do(watch)
			a.do(set("/stage/n", -1))
			a.do(set("/stage/n", -1))
		}
		a.do(childrenW("/stage/n"))
		a.do(create("/stage/n/1", wire.Persistent))
		a.do(create("/stage/n/2", wire.Persistent))
	}},
	{"an event comes before the reply that shows the change", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		b.do(existsW("/stage/n"))
		b.do(childrenW(root))
		a.ask(create("/stage/n", wire.Persistent))
		b.do(exists("/stage/n"))
		b.do(getW("/stage/n"))
		a.ask(set("/stage/n", -1))
		b.do(get("/stage/n"))
		b.do(getW("/stage/n"))
		b.do(childrenW(root))
		a.ask(multi(set("/stage/n", -1), create("/stage/m", wire.Persistent), deletion("/stage/n", -1)))
		b.do(children(root))
		b.pipeline(getW("/stage/m"), set("/stage/m", -1), get("/stage/m"), getW("/stage/m"), deletion("/stage/m", -1), exists("/stage/m"))
	}},
	{"a watch on a node that was deleted and made again", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		a.do(getW("/stage/n"))
		a.do(deletion("/stage/n", -1))
		a.do(create("/stage/n", wire.Persistent))
		a.do(set("/stage/n", -1))
		a.do(existsW("/stage/n"))
		a.do(multi(deletion("/stage/n", -1), create("/stage/n", wire.Persistent)))
		a.do(set("/stage/n", -1))
		a.do(childrenW("/stage/n"))
		a.do(multi(deletion("/stage/n", -1), create("/stage/n", wire.Persistent)))
		a.do(create("/stage/n/child", wire.Persistent))
	}},
	{"a read that fails sets no watch, except exists", func(s *stage) {
		a := s.session("a")
		a.do(createACL("/stage/closed", acl("world", "anyone", wire.PermWrite)))
		for _, read := range []any{
			getW("/stage/n"), childrenW("/stage/n"), namesW("/stage/n"), getW("/stage/closed"), childrenW("/stage/closed"), existsW("/stage/m"),
		} {
			a.do(read)
		}
		a.do(set("/stage/closed", -1))
		a.do(create("/stage/n", wire.Persistent))
		a.do(set("/stage/n", -1))
		a.do(create("/stage/n/n", wire.Persistent))
		a.do(create("/stage/m", wire.Persistent))
		a.do(existsW("/stage/closed"))
		a.do(set("/stage/closed", -1))
	}},
	{"only those who may read a node are told of it", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(auth("digest", "keeper:keeper"))
		hide := []wire.ACL{acl("world", "anyone", wire.PermAll&^wire.PermRead), keeper}
		watchAll := func(paths ...string) {
			for _, p := range []*player{a, b} {
				for _, path := range paths {
					p.do(existsW(path))
					p.do(childrenW(path))
				}
			}
		}
		a.do(create("/stage/n", wire.Persistent))
		a.do(create("/stage/n/open", wire.Persistent))
		a.do(createACL("/stage/n/closed", hide...))
		watchAll(root, "/stage/n", "/stage/n/open", "/stage/n/closed")
		a.do(setACL("/stage/n", -1, hide...))
		a.do(set("/stage/n", -1))
		a.do(set("/stage/n/open", -1))
		a.do(set("/stage/n/closed", -1))
		a.do(create("/stage/n/open/child", wire.Persistent))
		watchAll("/stage/n", "/stage/n/open", "/stage/n/new", "/stage/n/hidden")
		b.do(wire.AddWatch{Path: root, Mode: 1})
		a.do(create("/stage/n/new", wire.Persistent))
		a.do(createACL("/stage/n/hidden", hide...))
		a.do(deletion("/stage/n/hidden", -1))
		a.do(deletion("/stage/n/new", -1))
		watchAll(root, "/stage/n", "/stage/n/closed")
		a.do(setACL("/stage/n/closed", -1, wire.World...))
		a.do(multi(deletion("/stage/n/closed", -1), deletion("/stage/n/open/child", -1), deletion("/stage/n/open", -1), deletion("/stage/n", -1)))
	}},
	{"an exists watch waits for a sequential name", func(s *stage) {
		a := s.session("a")
		a.do(existsW("/stage/s-0000000001"))
		a.do(create("/stage/s-", wire.PersistentSequential))
		a.do(create("/stage/s-", wire.EphemeralSequential))
	}},
	{"watches on paths that are none", func(s *stage) {
		for i, path := range []string{"", "stage", "/stage/", "/stage//n", "/stage/\x00"} {
			p := s.session(fmt.Sprint("p", i))
			p.do(hidden{existsW(path)})
			p.do(hidden{namesW(path)})
			p.do(wire.AddWatch{Path: path})
			p.do(create(fmt.Sprint("/stage/n", i), wire.Persistent))
		}
	}},
	{"watches end with the connection", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/stage/n", wire.Persistent))
		a.do(getW("/stage/n"))
		a.do(wire.AddWatch{Path: "/stage/n"})
		heir := s.stranger("heir")
		heir.attach(a)
		b.do(set("/stage/n", -1))
		heir.do(get("/stage/n"))
	}},
	{"a session that closes tells all who watch its nodes, and itself before the answer", func(s *stage) {
		a, b, c := s.session("a"), s.session("b"), s.session("c")
		a.do(create("/stage/e", wire.Ephemeral))
		for _, p := range []*player{a, b} {
			p.do(getW("/stage/e"))
			p.do(childrenW(root))
		}
		c.do(existsW("/stage/e"))
		a.bye()
		b.do(children(root))
		c.do(exists("/stage/e"))
	}},
}

var persistent = []scenario{
	watching("a persistent watch tells of each change", wire.AddWatch{Path: "/stage/n"}),
	watching("a recursive watch tells of each change", wire.AddWatch{Path: "/stage/n", Mode: 1}),
	watching("a recursive watch on the parent", wire.AddWatch{Path: root, Mode: 1}),
	watching("a recursive watch on the root", wire.AddWatch{Path: "/", Mode: 1}),
	watching("a persistent watch on the parent", wire.AddWatch{Path: root}),
	watching("persistent and one-shot watches", wire.AddWatch{Path: "/stage/n"}, getW("/stage/n"), childrenW("/stage/n")),
	watching("recursive and one-shot watches", wire.AddWatch{Path: "/stage/n", Mode: 1}, existsW("/stage/n"), childrenW("/stage/n")),
	watching("recursive watches above and below", wire.AddWatch{Path: root, Mode: 1}, wire.AddWatch{Path: "/stage/n", Mode: 1}),
	watching("persistent then recursive", wire.AddWatch{Path: "/stage/n"}, wire.AddWatch{Path: "/stage/n", Mode: 1}),
	watching("recursive then persistent", wire.AddWatch{Path: "/stage/n", Mode: 1}, wire.AddWatch{Path: "/stage/n"}),
	{"a recursive watch covers what is below, not beside", func(s *stage) {
		a := s.session("a")
		a.do(wire.AddWatch{Path: "/stage/n", Mode: 1})
		for _, path := range []string{"/stage/n", "/stage/nn", "/stage/n/a", "/stage/n/a/b", "/stage/n/a/b/c"} {
			a.do(create(path, wire.Persistent))
			a.do(set(path, -1))
		}
		a.do(deletion("/stage/n/a/b/c", -1))
	}},
	{"a watch of an unknown mode is refused", func(s *stage) {
		for _, mode := range []int32{2, -1, 3, 1 << 30} {
			p := s.session(fmt.Sprint("p", mode))
			p.do(wire.AddWatch{Path: root, Mode: mode})
			p.do(exists(root))
		}
	}},
	{"checkWatches finds the watches that there are", func(s *stage) {
		for kind := int32(0); kind <= 6; kind++ {
			for i, watch := range []any{exists(root), getW("/stage/n"), existsW("/stage/n"), childrenW("/stage/n"), existsW("/stage/m"), wire.AddWatch{Path: "/stage/n"}, wire.AddWatch{Path: "/stage/n", Mode: 1}} {
				p := s.session(fmt.Sprintf("p%d-%d", kind, i))
				p.do(hidden{create("/stage/n", wire.Persistent)})
				p.do(watch)
				p.do(wire.CheckWatches{Path: "/stage/n", Type: kind})
				p.do(wire.CheckWatches{Path: "/stage/m", Type: kind})
				p.bye()
			}
		}
	}},
	{"removeWatches removes the watches of a type", func(s *stage) {
		other := s.session("other")
		for kind := int32(0); kind <= 6; kind++ {
			p := s.session(fmt.Sprint("p", kind))
			for _, req := range []any{
				wire.RemoveWatches{Path: "/stage/n", Type: kind},
				create("/stage/n", wire.Persistent), getW("/stage/n"), childrenW("/stage/n"),
				wire.RemoveWatches{Path: "/stage/n", Type: kind},
				set("/stage/n", -1), create("/stage/n/child", wire.Persistent),
				wire.AddWatch{Path: "/stage/n"},
				wire.RemoveWatches{Path: "/stage/n", Type: kind},
				set("/stage/n", -1), deletion("/stage/n/child", -1),
				wire.AddWatch{Path: "/stage/n", Mode: 1},
				wire.RemoveWatches{Path: "/stage/n", Type: kind},
				set("/stage/n", -1), create("/stage/n/child", wire.Persistent),
				existsW("/stage/m"),
				wire.RemoveWatches{Path: "/stage/m", Type: kind},
				create("/stage/m", wire.Persistent),
				deletion("/stage/m", -1), deletion("/stage/n/child", -1), deletion("/stage/n", -1),
			} {
				p.do(req)
			}
			p.leave()
			other.removeQuietly("/stage/m", "/stage/n/child", "/stage/n")
		}
	}},
	{"checkWatches finds the watches of others, too", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/stage/n", wire.Persistent))
		for _, watch := range []any{getW("/stage/n"), childrenW("/stage/n"), wire.AddWatch{Path: "/stage/n", Mode: 1}, wire.AddWatch{Path: root, Mode: 1}} {
			a.do(watch)
			for kind := int32(1); kind <= 3; kind++ {
				b.do(wire.CheckWatches{Path: "/stage/n", Type: kind})
				b.do(wire.RemoveWatches{Path: "/stage/n", Type: kind})
			}
			a.do(wire.RemoveWatches{Path: "/stage/n", Type: 3})
		}
	}},
	{"removing a watch leaves another session's", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/stage/n", wire.Persistent))
		a.do(getW("/stage/n"))
		b.do(getW("/stage/n"))
		a.do(wire.RemoveWatches{Path: "/stage/n", Type: 3})
		a.do(set("/stage/n", -1))
	}},
}

var restored = []scenario{
	{"setWatches tells what has changed since", func(s *stage) {
		a := s.session("a")
		first := a.do(create("/stage/old", wire.Persistent)).Zxid
		a.do(create("/stage/changed", wire.Persistent))
		middle := a.do(create("/stage/grown", wire.Persistent)).Zxid
		a.do(set("/stage/changed", -1))
		a.do(create("/stage/grown/child", wire.Persistent))
		a.do(create("/stage/new", wire.Persistent))
		last := a.do(setACL("/stage/old", -1, wire.World...)).Zxid
		paths := []string{"/stage/old", "/stage/changed", "/stage/grown", "/stage/new", "/stage/missing"}
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
				p.do(exists("/stage/missing"))
				p.bye()
			}
		}
	}},
	{"watches that were set again tell as before", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		for _, upheaval := range upheavals {
			b := s.session("b")
			b.do(wire.SetWatches{RelativeZxid: s.last, Data: []string{"/stage/n"}})
			c := s.session("c")
			c.do(wire.SetWatches{RelativeZxid: s.last, Exist: []string{"/stage/n"}})
			d := s.session("d")
			d.do(wire.SetWatches{RelativeZxid: s.last, Child: []string{"/stage/n", root}})
			e := s.session("e")
			e.do(wire.SetWatches{RelativeZxid: s.last, Persistent: []string{"/stage/n"}})
			f := s.session("f")
			f.do(wire.SetWatches{RelativeZxid: s.last, PersistentRecursive: []string{root}})
			for _, change := range upheaval {
				a.do(change)
			}
			for _, p := range []*player{b, c, d, e, f} {
				p.leave()
			}
		}
	}},
	{"setWatches of nothing, and with another xid", func(s *stage) {
		a := s.session("a")
		a.do(wire.SetWatches{})
		a.do(wire.SetWatches{Persistent: []string{}})
		a.pipeline(wire.SetWatches{Child: []string{root}}, create("/stage/n", wire.Persistent))
	}},
}
