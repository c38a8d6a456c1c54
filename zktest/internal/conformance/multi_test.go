// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var transactions = []scenario{
	{"a transaction answers each operation", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/old", wire.Persistent))
		a.do(multi(
			create("/stage/n", wire.Persistent), create2("/stage/n/e", wire.Ephemeral), create2("/stage/n/s-", wire.EphemeralSequential),
			createContainer("/stage/c"), create("/stage/n/p-", wire.PersistentSequential), set("/stage/n", 0), check("/stage/n", 1),
			deletion("/stage/old", 0), create2("/stage/c/x", wire.Persistent), set("/stage/c/x", -1),
		))
		for _, path := range []string{root, "/stage/n", "/stage/c"} {
			a.do(children(path))
		}
		a.do(get("/stage/n"))
		a.do(get("/stage/c/x"))
		a.do(exists("/stage/n/s-0000000001"))
	}},
	{"a transaction of none", func(s *stage) {
		a := s.session("a")
		a.do(multi())
		a.do(exists(root))
		a.do(multiRead())
	}},
	{"a transaction that fails at any place leaves no trace", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/old", wire.Persistent))
		good := []any{
			create("/stage/n", wire.Persistent), create("/stage/e", wire.Ephemeral), create("/stage/s-", wire.PersistentSequential),
			set("/stage/old", -1), check("/stage/old", 1), deletion("/stage/old", -1),
		}
		for i := range len(good) + 1 {
			a.do(multi(slices.Insert(slices.Clone(good), i, any(check("/stage/missing", -1)))...))
			a.do(children(root))
			a.do(get("/stage/old"))
		}
		a.do(wire.GetEphemerals{Prefix: "/"})
		a.do(create2("/stage/s-", wire.PersistentSequential))
		a.do(multi(good...))
		a.do(children(root))
	}},
	{"a transaction fails with the error of the operation that failed", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		a.do(create("/stage/e", wire.Ephemeral))
		a.do(create("/stage/n/n", wire.Persistent))
		closed := createACL("/stage/closed", acl("world", "anyone", wire.PermRead))
		a.do(closed)
		for _, bad := range []any{
			create("/stage/n", wire.Persistent), create("/stage/missing/n", wire.Persistent), create("/stage/e/n", wire.Persistent),
			create("/stage/x", 9), create("/stage/x", wire.PersistentWithTTL), create("", wire.Persistent), create("/stage/closed/n", wire.Persistent),
			createACL("/stage/x"), createACL("/stage/x", acl("bogus", "x", wire.PermAll)), createACL("/stage/x", acl("auth", "", wire.PermAll)),
			deletion("/stage/missing", -1), deletion("/stage/n", -1), deletion("/stage/e", 3), deletion("/", -1),
			set("/stage/missing", -1), set("/stage/n", 3), set("/stage/closed", -1), check("/stage/n", 3), check("/stage/missing", -1), check("/stage/closed", 0),
		} {
			a.do(multi(create("/stage/before", wire.Persistent), bad, create("/stage/after", wire.Persistent)))
		}
		a.do(multi(create("/stage/n", wire.Persistent), create("/stage/missing/n", wire.Persistent)))
		a.do(children(root))
	}},
	{"operations see what earlier ones of their transaction did", func(s *stage) {
		a := s.session("a")
		for _, ops := range [][]any{
			{create("/stage/n", wire.Persistent), set("/stage/n", 0), set("/stage/n", 1), check("/stage/n", 2), deletion("/stage/n", 2)},
			{create("/stage/n", wire.Persistent), create2("/stage/n/n", wire.Persistent), create2("/stage/n/n/n", wire.Persistent)},
			{deletion("/stage/n/n/n", 0), deletion("/stage/n/n", 0), deletion("/stage/n", 0)},
			{create("/stage/n", wire.Persistent), create("/stage/n", wire.Persistent)},
			{create("/stage/n", wire.Persistent), deletion("/stage/n", -1), create2("/stage/n", wire.Ephemeral), set("/stage/n", 0)},
			{create("/stage/n/child", wire.Persistent)},
			{deletion("/stage/n", -1), check("/stage/n", -1)},
			{deletion("/stage/n", -1), create("/stage/n", wire.Persistent), create("/stage/n/child", wire.Persistent), set("/stage/n", 0)},
			{deletion("/stage/n/child", -1), deletion("/stage/n", 1), deletion("/stage/n", 1)},
			{create("/stage/s-", wire.PersistentSequential), create("/stage/s-", wire.EphemeralSequential), create2("/stage/s-", wire.EphemeralSequential)},
			{create2("/stage/e", wire.Ephemeral), create("/stage/e/n", wire.Persistent)},
		} {
			a.do(multi(ops...))
			a.do(children(root))
			a.do(exists("/stage/n"))
		}
	}},
	{"each Stat in a transaction's reply is as of that operation", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/p", wire.Persistent))
		a.do(multi(create2("/stage/p/a-", wire.EphemeralSequential), set("/stage/p", -1)))
		a.do(multi(set("/stage/p", -1), create2("/stage/p/a-", wire.EphemeralSequential)))
		a.do(multi(create("/stage/p/b-", wire.EphemeralSequential), set("/stage/p", -1), create("/stage/p/b-", wire.EphemeralSequential),
			set("/stage/p", -1), deletion("/stage/p/a-0000000000", -1), set("/stage/p", -1)))
		a.do(multi(create2("/stage/q", wire.Persistent), create2("/stage/q/x", wire.Persistent), set("/stage/q", 0), set("/stage/q/x", 0), set("/stage/q", 1)))
		a.do(exists("/stage/p"))
		a.do(exists("/stage/q"))
	}},
	{"a transaction of a hundred", func(s *stage) {
		a := s.session("a")
		var ops []any
		for i := range 100 {
			ops = append(ops, create2(fmt.Sprintf("/stage/n%d", i), wire.Persistent))
		}
		a.do(multi(ops...))
		a.do(exists(root))
		a.do(create2("/stage/s", wire.PersistentSequential))
	}},
	{"an ephemeral made in a transaction is the session's", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(multi(create("/stage/a", wire.Ephemeral), create("/stage/gone", wire.Ephemeral), deletion("/stage/gone", -1)))
		b.do(multi(create2("/stage/b", wire.Ephemeral), check("/stage/a", 0)))
		b.do(exists("/stage/a"))
		a.do(multi(create("/stage/c", wire.Ephemeral), check("/stage/missing", 0)))
		a.do(wire.GetEphemerals{Prefix: ""})
		a.bye()
		b.do(children(root))
		b.do(create2("/stage/a/child", wire.Persistent))
		b.do(create2("/stage/a", wire.Persistent))
	}},
	{"a transaction may hold changes only", func(s *stage) {
		for i, op := range []any{
			get(root), names(root), children(root), exists(root), setACL(root, -1, wire.World...), getACL(root), multi(),
			wire.Sync{Path: root},
			wire.Ping{},
			wire.CloseSession{},
			rawclient.Raw{Op: 77},
			rawclient.Raw{Op: wire.OpError, Put: func(w *wire.Writer) { w.Int32(-101) }},
			createTTL("/stage/t", wire.PersistentWithTTL, 1000),
		} {
			p := s.session(fmt.Sprint("p", i))
			p.do(multi(op))
			p.do(multi(create("/stage/n", wire.Persistent), op))
			p.do(children(root))
		}
	}},
	{"a multiRead answers each operation, errors beside data", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		a.do(create("/stage/n/n", wire.Ephemeral))
		a.do(createACL("/stage/closed", acl("world", "anyone", wire.PermWrite)))
		a.do(multiRead(get("/stage/n"), names("/stage/n"), get("/stage/missing"), names("/stage/missing"), names("/stage/n/n"), get("/stage/closed"), get("/stage/n/n")))
		a.do(multiRead(getW("/stage/n"), namesW("/stage/n")))
		a.do(set("/stage/n", -1))
		a.do(create("/stage/n/m", wire.Persistent))
	}},
	{"a multiRead may hold reads only", func(s *stage) {
		for i, op := range []any{create("/stage/n", wire.Persistent), exists(root), children(root), check(root, -1), rawclient.Raw{Op: 77}} {
			p := s.session(fmt.Sprint("p", i))
			p.do(multiRead(op))
			p.do(multiRead(get(root), op))
			p.do(children(root))
		}
	}},
}
