// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A generator generates requests that often concern the same few nodes, and are often
// invalid.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 0))} }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

func (g generator) path() string {
	if g.IntN(30) == 0 {
		return pick(g, "", "/", "a", "//", "/a/", "/a//b", "/a/.", "/a\x00", "/zookeeper", "/zookeeper/config/x")
	}
	path := ""
	for range 1 + g.IntN(3) {
		path += "/" + pick(g, "a", "b", "c")
	}
	if g.IntN(6) == 0 {
		path += fmt.Sprintf("%010d", g.IntN(8))
	}
	return path
}

func (g generator) version() int32 { return pick[int32](g, -1, -1, -1, -1, -1, 0, 1, 2) }

func (g generator) data() []byte {
	return pick(g, nil, []byte{}, []byte("x"), make([]byte, g.IntN(50)))
}

func (g generator) acl() []wire.ACL {
	return pick(g, wire.World, wire.World, wire.World, wire.World, wire.World, wire.World, nil,
		[]wire.ACL{entry(wire.PermAll, "auth", "")},
		[]wire.ACL{entry(wire.PermRead, "world", "anyone"), entry(wire.PermAll, "digest", bob.ID)},
		[]wire.ACL{entry(wire.PermAll, "world", "anyone"), entry(wire.PermRead, "ip", "127.0.0.0/8")})
}

func (g generator) identities() []tree.Identity {
	return pick(g, []tree.Identity{local}, []tree.Identity{local, bob}, []tree.Identity{local, bob, al})
}

// operation returns a request that means the same within a transaction and outside one:
// of the creates, one whose operation agrees with its flags.
func (g generator) operation() any {
	switch g.IntN(9) {
	case 0, 1, 2, 3:
		c := wire.Create{Op: wire.OpCreate, Path: g.path(), Data: g.data(), ACL: g.acl(), Flags: int32(g.IntN(4))}
		switch g.IntN(6) {
		case 0:
			c.Op, c.Flags = wire.OpCreateContainer, wire.Container
		case 1:
			c.Op, c.Flags, c.TTL = wire.OpCreateTTL, pick(g, wire.PersistentWithTTL, wire.PersistentSequentialTTL), pick[int64](g, 0, 5000, 90000)
		}
		return c
	case 4, 5:
		return wire.Delete{Path: g.path(), Version: g.version()}
	case 6, 7:
		return wire.SetData{Path: g.path(), Data: g.data(), Version: g.version()}
	default:
		return wire.Check{Path: g.path(), Version: g.version()}
	}
}

func (g generator) transaction() wire.Multi {
	m := wire.Multi{}
	for range g.IntN(5) {
		m.Ops = append(m.Ops, g.operation())
	}
	return m
}

func (g generator) request() any {
	switch g.IntN(14) {
	case 0, 1, 2:
		return g.transaction()
	case 3:
		return wire.SetACL{Path: g.path(), ACL: g.acl(), Version: g.version()}
	case 4:
		return wire.Create{
			Op: pick(g, wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL), Path: g.path(), ACL: g.acl(),
			Flags: int32(g.IntN(9) - 1), TTL: pick[int64](g, -1, 0, 5000),
		}
	case 5:
		if g.IntN(6) > 0 {
			return tree.DeleteContainer{Path: g.path()}
		}
		return pick[any](g, wire.CloseSession{}, tree.OpenSession{Timeout: 1000}, tree.Refused{Op: wire.OpMulti, Code: wire.MarshallingError})
	}
	return g.operation()
}
