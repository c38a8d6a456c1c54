// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var transactions = []scenario{
	{"a transaction answers each operation", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/old", wire.Persistent))
		a.do(multi(
			create("/probe/n", wire.Persistent), create2("/probe/n/e", wire.Ephemeral), create2("/probe/n/s-", wire.EphemeralSequential),
			createContainer("/probe/c"), create("/probe/n/p-", wire.PersistentSequential), set("/probe/n", 0), check("/probe/n", 1),
			deletion("/probe/old", 0), create2("/probe/c/x", wire.Persistent), set("/probe/c/x", -1),
		))
		for _, path := range []string{root, "/probe/n", "/probe/c"} {
			a.do(children(path))
		}
		a.do(get("/probe/n"))
		a.do(get("/probe/c/x"))
		a.do(exists("/probe/n/s-0000000001"))
	}},
	{"an empty transaction", func(s *run) {
		a := s.session("a")
		a.do(multi())
		a.do(exists(root))
		a.do(multiRead())
	}},
	{"a transaction that fails at any place leaves no trace", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/old", wire.Persistent))
		good := []any{
			create("/probe/n", wire.Persistent), create("/probe/e", wire.Ephemeral), create("/probe/s-", wire.PersistentSequential),
			set("/probe/old", -1), check("/probe/old", 1), deletion("/probe/old", -1),
		}
		for i := range len(good) + 1 {
			a.do(multi(slices.Insert(slices.Clone(good), i, any(check("/probe/missing", -1)))...))
			a.do(children(root))
			a.do(get("/probe/old"))
		}
		a.do(wire.GetEphemerals{Prefix: "/"})
		a.do(create2("/probe/s-", wire.PersistentSequential))
		a.do(multi(good...))
		a.do(children(root))
	}},
	{"a transaction fails with the error of the operation that failed", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		a.do(create("/probe/e", wire.Ephemeral))
		a.do(create("/probe/n/n", wire.Persistent))
		closed := createACL("/probe/closed", acl("world", "anyone", wire.PermRead))
		a.do(closed)
		for _, bad := range []any{
			create("/probe/n", wire.Persistent), create("/probe/missing/n", wire.Persistent), create("/probe/e/n", wire.Persistent),
			create("/probe/x", 9), create("/probe/x", wire.PersistentWithTTL), create("", wire.Persistent), create("/probe/closed/n", wire.Persistent),
			createACL("/probe/x"), createACL("/probe/x", acl("bogus", "x", wire.PermAll)), createACL("/probe/x", acl("auth", "", wire.PermAll)),
			deletion("/probe/missing", -1), deletion("/probe/n", -1), deletion("/probe/e", 3), deletion("/", -1),
			set("/probe/missing", -1), set("/probe/n", 3), set("/probe/closed", -1), check("/probe/n", 3), check("/probe/missing", -1), check("/probe/closed", 0),
		} {
			a.do(multi(create("/probe/before", wire.Persistent), bad, create("/probe/after", wire.Persistent)))
		}
		a.do(multi(create("/probe/n", wire.Persistent), create("/probe/missing/n", wire.Persistent)))
		a.do(children(root))
	}},
	{"operations see the effects of earlier ones in their transaction", func(s *run) {
		a := s.session("a")
		for _, ops := range [][]any{
			{create("/probe/n", wire.Persistent), set("/probe/n", 0), set("/probe/n", 1), check("/probe/n", 2), deletion("/probe/n", 2)},
			{create("/probe/n", wire.Persistent), create2("/probe/n/n", wire.Persistent), create2("/probe/n/n/n", wire.Persistent)},
			{deletion("/probe/n/n/n", 0), deletion("/probe/n/n", 0), deletion("/probe/n", 0)},
			{create("/probe/n", wire.Persistent), create("/probe/n", wire.Persistent)},
			{create("/probe/n", wire.Persistent), deletion("/probe/n", -1), create2("/probe/n", wire.Ephemeral), set("/probe/n", 0)},
			{create("/probe/n/child", wire.Persistent)},
			{deletion("/probe/n", -1), check("/probe/n", -1)},
			{deletion("/probe/n", -1), create("/probe/n", wire.Persistent), create("/probe/n/child", wire.Persistent), set("/probe/n", 0)},
			{deletion("/probe/n/child", -1), deletion("/probe/n", 1), deletion("/probe/n", 1)},
			{create("/probe/s-", wire.PersistentSequential), create("/probe/s-", wire.EphemeralSequential), create2("/probe/s-", wire.EphemeralSequential)},
			{create2("/probe/e", wire.Ephemeral), create("/probe/e/n", wire.Persistent)},
		} {
			a.do(multi(ops...))
			a.do(children(root))
			a.do(exists("/probe/n"))
		}
	}},
	{"each Stat in a transaction's reply is as of that operation", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/p", wire.Persistent))
		a.do(multi(create2("/probe/p/a-", wire.EphemeralSequential), set("/probe/p", -1)))
		a.do(multi(set("/probe/p", -1), create2("/probe/p/a-", wire.EphemeralSequential)))
		a.do(multi(create("/probe/p/b-", wire.EphemeralSequential), set("/probe/p", -1), create("/probe/p/b-", wire.EphemeralSequential),
			set("/probe/p", -1), deletion("/probe/p/a-0000000000", -1), set("/probe/p", -1)))
		a.do(multi(create2("/probe/q", wire.Persistent), create2("/probe/q/x", wire.Persistent), set("/probe/q", 0), set("/probe/q/x", 0), set("/probe/q", 1)))
		a.do(exists("/probe/p"))
		a.do(exists("/probe/q"))
	}},
	{"a transaction of a hundred operations", func(s *run) {
		a := s.session("a")
		var ops []any
		for i := range 100 {
			ops = append(ops, create2(fmt.Sprintf("/probe/n%d", i), wire.Persistent))
		}
		a.do(multi(ops...))
		a.do(exists(root))
		a.do(create2("/probe/s", wire.PersistentSequential))
	}},
	{"an ephemeral node created in a transaction belongs to the session", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(multi(create("/probe/a", wire.Ephemeral), create("/probe/gone", wire.Ephemeral), deletion("/probe/gone", -1)))
		b.do(multi(create2("/probe/b", wire.Ephemeral), check("/probe/a", 0)))
		b.do(exists("/probe/a"))
		a.do(multi(create("/probe/c", wire.Ephemeral), check("/probe/missing", 0)))
		a.do(wire.GetEphemerals{Prefix: ""})
		a.closeSession()
		b.do(children(root))
		b.do(create2("/probe/a/child", wire.Persistent))
		b.do(create2("/probe/a", wire.Persistent))
	}},
	{"a transaction may contain changes only", func(s *run) {
		for i, op := range []any{
			get(root), names(root), children(root), exists(root), setACL(root, -1, wire.World...), getACL(root), multi(),
			wire.Sync{Path: root},
			wire.Ping{},
			wire.CloseSession{},
			rawclient.Raw{Op: 77},
			rawclient.Raw{Op: wire.OpError, Put: func(w *wire.Writer) { w.Int32(-101) }},
			createTTL("/probe/t", wire.PersistentWithTTL, 1000),
		} {
			p := s.session(fmt.Sprint("p", i))
			p.do(multi(op))
			p.do(multi(create("/probe/n", wire.Persistent), op))
			p.do(children(root))
		}
	}},
	{"a multiRead answers each operation, errors beside data", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		a.do(create("/probe/n/n", wire.Ephemeral))
		a.do(createACL("/probe/closed", acl("world", "anyone", wire.PermWrite)))
		a.do(multiRead(get("/probe/n"), names("/probe/n"), get("/probe/missing"), names("/probe/missing"), names("/probe/n/n"), get("/probe/closed"), get("/probe/n/n")))
		a.do(multiRead(getW("/probe/n"), namesW("/probe/n")))
		a.do(set("/probe/n", -1))
		a.do(create("/probe/n/m", wire.Persistent))
	}},
	{"a multiRead may contain reads only", func(s *run) {
		for i, op := range []any{create("/probe/n", wire.Persistent), exists(root), children(root), check(root, -1), rawclient.Raw{Op: 77}} {
			p := s.session(fmt.Sprint("p", i))
			p.do(multiRead(op))
			p.do(multiRead(get(root), op))
			p.do(children(root))
		}
	}},
}
