// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"math/rand/v2"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A move is one step of a generated sequence: what one of the players does. Moves are made before anything is played,
// so that they are the same on both servers.
type move struct {
	player int
	do     any // a request, several for a pipeline, or one of the types below
}

type (
	// leaves closes the player's session, and opens another.
	leaves struct{}
	// returns hangs up, and attaches to the session again.
	returns struct{}
	// restores sets watches again for what has changed since so many zxids after the start.
	restores struct {
		since   int64
		watches wire.SetWatches
	}
)

const players = 3

// A generator makes moves at random: few paths, so that they meet.
type generator struct{ *rand.Rand }

// sequence makes so many moves, always the same ones for a seed.
func sequence(seed uint64, length int) []move {
	g := generator{rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // chance that can be repeated
	moves := make([]move, length)
	for i := range moves {
		moves[i] = move{player: g.IntN(players), do: g.deed(i)}
	}
	return moves
}

// deed is what the i-th move does.
func (g generator) deed(i int) any {
	switch n := g.IntN(100); {
	case n < 2:
		return leaves{}
	case n < 4:
		return returns{}
	case n < 7:
		return g.restore(i)
	case n < 12:
		return g.pipeline()
	}
	return g.request()
}

// pipeline has no setACL: what follows one in the same write is judged by the old ACL or by the new one, by chance.
func (g generator) pipeline() []any {
	reqs := []any{g.read()}
	for range g.IntN(5) {
		if req := g.request(); rawclient.OpOf(req) != wire.OpSetACL {
			reqs = append(reqs, req)
		}
	}
	return reqs
}

func (g generator) request() any {
	switch n := g.IntN(100); {
	case n < 45:
		return g.change()
	case n < 55:
		return g.transaction()
	case n < 88:
		return g.read()
	}
	return g.watch()
}

// change is a request that can be part of a transaction, or setACL.
func (g generator) change() any {
	switch n := g.IntN(20); {
	case n < 10:
		return g.create()
	case n < 14:
		return deletion(g.path(), g.version())
	case n < 18:
		s := set(g.path(), g.version())
		s.Data = make([]byte, g.IntN(4))
		return s
	}
	return setACL(g.path(), g.version(), g.acl()...)
}

func (g generator) create() wire.Create {
	flags := []int32{wire.Persistent, wire.Persistent, wire.Persistent, wire.Ephemeral, wire.PersistentSequential, wire.EphemeralSequential}
	path := g.path()
	c := create(path, flags[g.IntN(len(flags))])
	c.Data = make([]byte, g.IntN(3))
	switch g.IntN(16) {
	case 0, 1, 2, 3:
		c.Op = wire.OpCreate2
	case 4:
		// Nobody goes below: a container that was used would be reaped at a time of the server's choosing.
		c = createContainer(g.parent() + "/container")
	case 5:
		c.Flags = 7 + int32(g.IntN(2)) //nolint:gosec // small
	case 6:
		c = createTTL(path, wire.PersistentWithTTL, 1<<39)
	}
	if g.IntN(8) == 0 {
		c.ACL = g.acl()
	}
	if c.Path == root && c.Flags != wire.Persistent {
		c.Path += "/" // else it is made beside the stage, with a number that tells of all that was there before
	}
	return c
}

func (g generator) transaction() wire.Multi {
	m := wire.Multi{}
	for range g.IntN(6) {
		switch g.IntN(4) {
		case 0:
			m.Ops = append(m.Ops, check(g.path(), g.version()))
		default:
			op := g.change()
			if _, is := op.(wire.SetACL); !is {
				m.Ops = append(m.Ops, op)
			}
		}
	}
	return m
}

func (g generator) read() any {
	path, watch := g.path(), g.IntN(3) == 0
	switch g.IntN(14) {
	case 0, 1:
		return wire.Exists{Path: path, Watch: watch}
	case 2, 3:
		return wire.GetData{Path: path, Watch: watch}
	case 4, 5, 6:
		return wire.GetChildren{Path: path, Watch: watch, WithStat: true}
	case 7:
		return wire.GetChildren{Path: path, Watch: watch}
	case 8:
		return getACL(path)
	case 9:
		return multiRead(get(path), names(g.path()), get(g.path()))
	case 10:
		return wire.GetEphemerals{Prefix: path}
	case 11:
		return wire.GetAllChildrenNumber{Path: path}
	case 12:
		return wire.Sync{Path: path}
	}
	return wire.WhoAmI{}
}

func (g generator) watch() any {
	path := g.path()
	switch g.IntN(8) {
	case 0:
		return wire.AddWatch{Path: path, Mode: g.Int32N(2)}
	case 1:
		return wire.CheckWatches{Path: path, Type: 1 + g.Int32N(3)}
	case 2:
		return wire.RemoveWatches{Path: path, Type: 1 + g.Int32N(3)}
	case 3:
		return childrenW(g.parent())
	case 4, 5:
		return existsW(path)
	}
	return getW(path)
}

func (g generator) restore(i int) restores {
	some := func() (paths []string) {
		for range g.IntN(3) {
			paths = append(paths, g.path())
		}
		return paths
	}
	r := restores{since: g.Int64N(int64(i) + 2), watches: wire.SetWatches{Data: some(), Exist: some(), Child: some()}}
	if g.IntN(2) == 0 {
		r.watches.Persistent, r.watches.PersistentRecursive = some(), some()
	}
	return r
}

func (g generator) version() int32 { return []int32{-1, -1, -1, 0, 0, 1, 2}[g.IntN(7)] }

func (g generator) parent() string {
	return []string{root, root, "/stage/a", "/stage/b", "/stage/a/b"}[g.IntN(5)]
}

func (g generator) path() string {
	switch g.IntN(40) {
	case 0:
		return root
	case 1:
		return g.parent() + "/"
	}
	return g.parent() + []string{"/a", "/b", "/a", "/b", "/e", "/s-", "/s-0000000001", "/s-0000000003"}[g.IntN(8)]
}

// acl always lets the keeper clean up.
func (g generator) acl() []wire.ACL {
	switch g.IntN(6) {
	case 0:
		return nil
	case 1:
		return []wire.ACL{acl("auth", "", wire.PermAll), keeper}
	case 2:
		return []wire.ACL{acl("digest", ann, wire.PermAll), acl("world", "anyone", wire.PermRead), keeper}
	case 3:
		return []wire.ACL{acl("world", "anyone", g.Int32N(wire.PermAll+1)), keeper}
	}
	return wire.World
}

// play makes the moves. Two of the players are somebody.
func play(moves []move) func(*stage) {
	return func(s *stage) {
		var cast [players]*player
		credentials := []wire.Auth{auth("digest", "ann:secret"), auth("digest", "bob:secret")}
		enter := func(i int) {
			cast[i] = s.session(string(rune('a' + i)))
			if i < len(credentials) {
				cast[i].do(credentials[i])
			}
		}
		for i := range cast {
			enter(i)
		}
		for _, m := range moves {
			p := cast[m.player]
			switch deed := m.do.(type) {
			case leaves:
				s.unordered = true
				p.bye()
				s.unordered = false
				enter(m.player)
			case returns:
				p.hangUp()
				cast[m.player] = s.stranger(p.name)
				cast[m.player].attach(p)
			case restores:
				deed.watches.RelativeZxid = s.base + deed.since
				s.note("since +%d", deed.since)
				p.do(deed.watches)
			case []any:
				p.pipeline(deed...)
			default:
				p.do(deed)
			}
		}
	}
}

// shrink leaves out what it can while the rest still fails, in so many tries at most.
func shrink(moves []move, tries int, fails func([]move) bool) []move {
	for size := len(moves) / 2; size > 0; {
		shorter := false
		for from := 0; from+size <= len(moves) && tries > 0; {
			tries--
			rest := append(append([]move{}, moves[:from]...), moves[from+size:]...)
			if fails(rest) {
				moves, shorter = rest, true
			} else {
				from += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return moves
}
