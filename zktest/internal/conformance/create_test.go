// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A scenario plays on one server; its name says what its transcript shows.
type scenario struct {
	name string
	play func(*stage)
}

var creations = []scenario{
	{"create makes a node of each mode and tells its path", func(s *stage) {
		a := s.session("a")
		for flags := int32(-1); flags <= 8; flags++ {
			a.do(create("/stage/n", flags))
			a.do(exists("/stage/n"))
			a.do(exists(root))
			a.do(deletion("/stage/n", -1))
			a.do(children(root))
		}
	}},
	{"create2 tells the Stat too, for each mode", func(s *stage) {
		a := s.session("a")
		for flags := int32(-1); flags <= 8; flags++ {
			a.do(create2("/stage/n", flags))
			a.do(exists(root))
			a.do(deletion("/stage/n", -1))
		}
		a.do(children(root))
	}},
	{"createContainer tells the Stat and refuses other modes", func(s *stage) {
		a := s.session("a")
		for flags := int32(-1); flags <= 8; flags++ {
			a.do(containerWithFlags("/stage/c", flags))
			a.do(get("/stage/c"))
			a.do(deletion("/stage/c", -1))
		}
		a.do(createContainer("/stage/c"))
		a.do(createContainer("/stage/c"))
		a.do(create2("/stage/c/child", wire.Ephemeral))
		a.do(exists("/stage/c"))
		a.do(createContainer("/stage/c/c"))
		a.do(exists("/stage/c"))
	}},
	{"createTTL is refused unless TTL nodes are switched on", func(s *stage) {
		a := s.session("a")
		for flags := int32(0); flags <= 7; flags++ {
			a.do(createTTL("/stage/t", flags, 60_000))
			a.do(get("/stage/t"))
			a.do(deletion("/stage/t", -1))
		}
		for _, ttl := range []int64{-1, 0, 1, 1<<40 - 1, 1 << 40, 1<<56 - 1, 1 << 62} {
			a.do(createTTL("/stage/t", wire.PersistentWithTTL, ttl))
			a.do(deletion("/stage/t", -1))
		}
		a.do(createTTL("/stage/t-", wire.PersistentSequentialTTL, 60_000))
		a.do(multi(createTTL("/stage/u", wire.PersistentWithTTL, 60_000)))
		a.do(createTTL("/stage/u", wire.PersistentWithTTL, 60_000))
		a.do(create2("/stage/u/child", wire.Ephemeral))
		a.do(set("/stage/u", -1))
		a.do(children(root))
	}},
	{"create refuses a node that exists, or that has no parent or an ephemeral one", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		a.do(create("/stage/n", wire.Persistent))
		a.do(create("/stage/n", wire.Ephemeral))
		a.do(create2("/stage/n", wire.Persistent))
		a.do(createContainer("/stage/n"))
		a.do(create("/stage/missing/n", wire.Persistent))
		a.do(create("/stage/missing/n", wire.PersistentSequential))
		a.do(createContainer("/stage/missing/n"))
		a.do(create("/stage/e", wire.Ephemeral))
		a.do(create("/stage/e/n", wire.Persistent))
		a.do(create("/stage/e/n", wire.EphemeralSequential))
		a.do(createContainer("/stage/e/n"))
		a.do(exists("/stage/e"))
		a.do(exists(root))
	}},
	{"create refuses a path that is none", func(s *stage) {
		a := s.session("a")
		for _, path := range badPaths {
			a.do(create(path, wire.Persistent))
			a.do(create(path, wire.EphemeralSequential))
		}
		a.do(children(root))
	}},
	{"a read of a path that is none finds no node", func(s *stage) {
		a := s.session("a")
		for _, path := range badPaths[1:] { // the empty one stands for the root, see there
			a.do(exists(path))
			a.do(get(path))
			a.do(children(path))
			a.do(getACL(path))
		}
	}},
	{"a change of a path that is none is refused", func(s *stage) {
		a := s.session("a")
		for _, path := range badPaths {
			a.do(set(path, -1))
			a.do(deletion(path, -1))
			a.do(setACL(path, -1, wire.World...))
			a.do(multi(check(path, -1)))
			a.do(multi(create(path, wire.Persistent)))
		}
	}},
	{"paths may hold what is not ASCII", func(s *stage) {
		a := s.session("a")
		for _, path := range []string{"/stage/é", "/stage/日本", "/stage/a b", "/stage/a%2Fb", "/stage/…", "/stage/a.b", "/stage/.a", "/stage/..a"} {
			a.do(create2(path, wire.Persistent))
		}
		a.do(children(root))
	}},
	{"data may be null, empty or long", func(s *stage) {
		a := s.session("a")
		null := create2("/stage/null", wire.Persistent)
		null.Data = nil
		a.do(null)
		a.do(get(null.Path))
		a.do(set(null.Path, -1))
		a.do(wire.SetData{Path: null.Path, Version: -1})
		a.do(get(null.Path))
		empty := create2("/stage/empty", wire.Persistent)
		empty.Data = []byte{}
		a.do(empty)
		a.do(get(empty.Path))
		long := create2("/stage/long", wire.Persistent)
		long.Data = []byte(strings.Repeat("0123456789", 50_000))
		a.do(long)
		a.do(get(long.Path))
	}},
	{"sequential names count all creations below a parent", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/p", wire.Persistent))
		a.do(create2("/stage/p/s-", wire.PersistentSequential))
		a.do(create2("/stage/p/s-", wire.EphemeralSequential))
		a.do(create2("/stage/p/plain", wire.Persistent))
		a.do(create2("/stage/p/t-", wire.PersistentSequential))
		a.do(deletion("/stage/p/s-0000000000", -1))
		a.do(deletion("/stage/p/plain", -1))
		a.do(exists("/stage/p"))
		a.do(create2("/stage/p/s-", wire.EphemeralSequential))
		a.do(createContainer("/stage/p/c"))
		a.do(create2("/stage/p/", wire.EphemeralSequential))
		a.do(create2("/stage/p/", wire.Persistent))
		a.do(children("/stage/p"))
		a.do(create2("/stage/p/c/", wire.PersistentSequential))
		a.do(create("/stage/p/s-0000000000/x", wire.PersistentSequential))
		a.do(exists("/stage/p"))
	}},
	{"a sequential name that is taken is refused and the counter stays", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/p", wire.Persistent))
		a.do(create("/stage/p/s-0000000001", wire.Persistent))
		a.do(create2("/stage/p/s-", wire.PersistentSequential))
		a.do(create2("/stage/p/s-", wire.PersistentSequential))
		a.do(exists("/stage/p"))
		a.do(create2("/stage/p/q-", wire.PersistentSequential))
		a.do(create2("/stage/p/s-", wire.PersistentSequential))
	}},
	{"a parent's cversion and pzxid follow its children", func(s *stage) {
		a := s.session("a")
		a.do(create2("/stage/p", wire.Persistent))
		for _, step := range []any{
			create("/stage/p/1", wire.Persistent), create("/stage/p/2", wire.Ephemeral),
			set("/stage/p/1", -1), deletion("/stage/p/1", -1), create("/stage/p/1", wire.Persistent),
			create("/stage/p/1/1", wire.Persistent), set("/stage/p", -1), setACL("/stage/p", -1, wire.World...),
			create("/stage/p/1", wire.Persistent), deletion("/stage/p/3", -1), deletion("/stage/p/1", -1),
			deletion("/stage/p/1/1", -1), deletion("/stage/p/1", -1), deletion("/stage/p/2", -1),
		} {
			a.do(step)
			a.do(exists("/stage/p"))
			a.do(exists("/stage/p/1"))
			a.do(exists(root))
		}
	}},
}

// badPaths are no paths, in each way that there is.
var badPaths = []string{
	"", "stage", "stage/n", "/stage/", "//stage", "/stage//n", "/stage/n/", "/stage/.", "/stage/..", "/stage/./n", "/stage/../n",
	"/stage/a\x00b", "/stage/a\x01b", "/stage/a\x1fb", "/stage/a\nb", "/stage/a\x7fb", "/stage/a\u0080b", "/stage/a\u009fb", "/stage/a\ue000b",
	"/stage/a\uf8ffb", "/stage/a\ufff0b", "/stage/a\uffffb", "/stage/a\U00010000b", "/stage/a\xffb",
}
