// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A scenario runs on one server; its name is the claim that its transcript shows.
type scenario struct {
	name string
	body func(*run)
}

var creations = []scenario{
	{"create creates a node of each mode and returns its path", func(s *run) {
		a := s.session("a")
		for flags := int32(-1); flags <= 8; flags++ {
			a.do(create("/probe/n", flags))
			a.do(exists("/probe/n"))
			a.do(exists(root))
			a.do(deletion("/probe/n", -1))
			a.do(children(root))
		}
	}},
	{"create2 also returns the Stat, for each mode", func(s *run) {
		a := s.session("a")
		for flags := int32(-1); flags <= 8; flags++ {
			a.do(create2("/probe/n", flags))
			a.do(exists(root))
			a.do(deletion("/probe/n", -1))
		}
		a.do(children(root))
	}},
	{"createContainer returns the Stat and refuses other modes", func(s *run) {
		a := s.session("a")
		for flags := int32(-1); flags <= 8; flags++ {
			a.do(containerWithFlags("/probe/c", flags))
			a.do(get("/probe/c"))
			a.do(deletion("/probe/c", -1))
		}
		a.do(createContainer("/probe/c"))
		a.do(createContainer("/probe/c"))
		a.do(create2("/probe/c/child", wire.Ephemeral))
		a.do(exists("/probe/c"))
		a.do(createContainer("/probe/c/c"))
		a.do(exists("/probe/c"))
	}},
	{"createTTL is refused unless TTL nodes are enabled", func(s *run) {
		a := s.session("a")
		for flags := int32(0); flags <= 7; flags++ {
			a.do(createTTL("/probe/t", flags, 60_000))
			a.do(get("/probe/t"))
			a.do(deletion("/probe/t", -1))
		}
		for _, ttl := range []int64{-1, 0, 1, 1<<40 - 1, 1 << 40, 1<<56 - 1, 1 << 62} {
			a.do(createTTL("/probe/t", wire.PersistentWithTTL, ttl))
			a.do(deletion("/probe/t", -1))
		}
		a.do(createTTL("/probe/t-", wire.PersistentSequentialTTL, 60_000))
		a.do(multi(createTTL("/probe/u", wire.PersistentWithTTL, 60_000)))
		a.do(createTTL("/probe/u", wire.PersistentWithTTL, 60_000))
		a.do(create2("/probe/u/child", wire.Ephemeral))
		a.do(set("/probe/u", -1))
		a.do(children(root))
	}},
	{"create refuses a node that exists, or whose parent is missing or ephemeral", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		a.do(create("/probe/n", wire.Persistent))
		a.do(create("/probe/n", wire.Ephemeral))
		a.do(create2("/probe/n", wire.Persistent))
		a.do(createContainer("/probe/n"))
		a.do(create("/probe/missing/n", wire.Persistent))
		a.do(create("/probe/missing/n", wire.PersistentSequential))
		a.do(createContainer("/probe/missing/n"))
		a.do(create("/probe/e", wire.Ephemeral))
		a.do(create("/probe/e/n", wire.Persistent))
		a.do(create("/probe/e/n", wire.EphemeralSequential))
		a.do(createContainer("/probe/e/n"))
		a.do(exists("/probe/e"))
		a.do(exists(root))
	}},
	{"create refuses an invalid path", func(s *run) {
		a := s.session("a")
		for _, path := range badPaths {
			a.do(create(path, wire.Persistent))
			a.do(create(path, wire.EphemeralSequential))
		}
		a.do(children(root))
	}},
	{"a read of an invalid path finds no node", func(s *run) {
		a := s.session("a")
		for _, path := range badPaths[1:] { // except the empty one, which stands for the root
			a.do(exists(path))
			a.do(get(path))
			a.do(children(path))
			a.do(getACL(path))
		}
	}},
	{"a change of an invalid path is refused", func(s *run) {
		a := s.session("a")
		for _, path := range badPaths {
			a.do(set(path, -1))
			a.do(deletion(path, -1))
			a.do(setACL(path, -1, wire.World...))
			a.do(multi(check(path, -1)))
			a.do(multi(create(path, wire.Persistent)))
		}
	}},
	{"paths may contain characters beyond ASCII", func(s *run) {
		a := s.session("a")
		for _, path := range []string{"/probe/é", "/probe/日本", "/probe/a b", "/probe/a%2Fb", "/probe/…", "/probe/a.b", "/probe/.a", "/probe/..a"} {
			a.do(create2(path, wire.Persistent))
		}
		a.do(children(root))
	}},
	{"data may be null, empty or long", func(s *run) {
		a := s.session("a")
		null := create2("/probe/null", wire.Persistent)
		null.Data = nil
		a.do(null)
		a.do(get(null.Path))
		a.do(set(null.Path, -1))
		a.do(wire.SetData{Path: null.Path, Version: -1})
		a.do(get(null.Path))
		empty := create2("/probe/empty", wire.Persistent)
		empty.Data = []byte{}
		a.do(empty)
		a.do(get(empty.Path))
		long := create2("/probe/long", wire.Persistent)
		long.Data = []byte(strings.Repeat("0123456789", 50_000))
		a.do(long)
		a.do(get(long.Path))
	}},
	{"sequential names count all creations below a parent", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/p", wire.Persistent))
		a.do(create2("/probe/p/s-", wire.PersistentSequential))
		a.do(create2("/probe/p/s-", wire.EphemeralSequential))
		a.do(create2("/probe/p/plain", wire.Persistent))
		a.do(create2("/probe/p/t-", wire.PersistentSequential))
		a.do(deletion("/probe/p/s-0000000000", -1))
		a.do(deletion("/probe/p/plain", -1))
		a.do(exists("/probe/p"))
		a.do(create2("/probe/p/s-", wire.EphemeralSequential))
		a.do(createContainer("/probe/p/c"))
		a.do(create2("/probe/p/", wire.EphemeralSequential))
		a.do(create2("/probe/p/", wire.Persistent))
		a.do(children("/probe/p"))
		a.do(create2("/probe/p/c/", wire.PersistentSequential))
		a.do(create("/probe/p/s-0000000000/x", wire.PersistentSequential))
		a.do(exists("/probe/p"))
	}},
	{"a taken sequential name is refused and does not change the counter", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/p", wire.Persistent))
		a.do(create("/probe/p/s-0000000001", wire.Persistent))
		a.do(create2("/probe/p/s-", wire.PersistentSequential))
		a.do(create2("/probe/p/s-", wire.PersistentSequential))
		a.do(exists("/probe/p"))
		a.do(create2("/probe/p/q-", wire.PersistentSequential))
		a.do(create2("/probe/p/s-", wire.PersistentSequential))
	}},
	{"a parent's cversion and pzxid follow its children", func(s *run) {
		a := s.session("a")
		a.do(create2("/probe/p", wire.Persistent))
		for _, step := range []any{
			create("/probe/p/1", wire.Persistent), create("/probe/p/2", wire.Ephemeral),
			set("/probe/p/1", -1), deletion("/probe/p/1", -1), create("/probe/p/1", wire.Persistent),
			create("/probe/p/1/1", wire.Persistent), set("/probe/p", -1), setACL("/probe/p", -1, wire.World...),
			create("/probe/p/1", wire.Persistent), deletion("/probe/p/3", -1), deletion("/probe/p/1", -1),
			deletion("/probe/p/1/1", -1), deletion("/probe/p/1", -1), deletion("/probe/p/2", -1),
		} {
			a.do(step)
			a.do(exists("/probe/p"))
			a.do(exists("/probe/p/1"))
			a.do(exists(root))
		}
	}},
}

// badPaths are invalid paths of each kind.
var badPaths = []string{
	"", "probe", "probe/n", "/probe/", "//probe", "/probe//n", "/probe/n/", "/probe/.", "/probe/..", "/probe/./n", "/probe/../n",
	"/probe/a\x00b", "/probe/a\x01b", "/probe/a\x1fb", "/probe/a\nb", "/probe/a\x7fb", "/probe/a\u0080b", "/probe/a\u009fb", "/probe/a\ue000b",
	"/probe/a\uf8ffb", "/probe/a\ufff0b", "/probe/a\uffffb", "/probe/a\U00010000b", "/probe/a\xffb",
}
