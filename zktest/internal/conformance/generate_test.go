// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"math/rand/v2"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A step is one step of a generated sequence: an action of one client. All steps are generated before any is run, so
// that they are the same on both servers.
type step struct {
	client int
	do     any // a request, several for a pipeline, or one of the types below
}

type (
	// reopen closes the client's session, and opens another.
	reopen struct{}
	// reattach disconnects, and attaches to the session again.
	reattach struct{}
	// restoreWatches sets watches again, with a relative zxid that counts from the scenario's start.
	restoreWatches struct {
		since   int64
		watches wire.SetWatches
	}
)

const clientCount = 3

// A generator generates random steps, on few paths, so that they interact.
type generator struct{ *rand.Rand }

// sequence returns that many steps, always the same ones for a seed.
func sequence(seed uint64, length int) []step {
	g := generator{rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // reproducible
	steps := make([]step, length)
	for i := range steps {
		steps[i] = step{client: g.IntN(clientCount), do: g.action(i)}
	}
	return steps
}

// action returns the action of the i-th step.
func (g generator) action(i int) any {
	switch n := g.IntN(100); {
	case n < 2:
		return reopen{}
	case n < 4:
		return reattach{}
	case n < 7:
		return g.restore(i)
	case n < 12:
		return g.pipeline()
	}
	return g.request()
}

// pipeline returns requests for one write. It has no setACL: requests after one in the same write are checked against
// the old ACL or the new one, depending on timing.
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

// change returns a request that may be in a transaction, or a setACL.
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
		// No step uses a path below it: the server would delete a used container at an unpredictable time.
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
		c.Path += "/" // otherwise it is a sibling of root, with a number that depends on earlier scenarios
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

func (g generator) restore(i int) restoreWatches {
	some := func() (paths []string) {
		for range g.IntN(3) {
			paths = append(paths, g.path())
		}
		return paths
	}
	r := restoreWatches{since: g.Int64N(int64(i) + 2), watches: wire.SetWatches{Data: some(), Exist: some(), Child: some()}}
	if g.IntN(2) == 0 {
		r.watches.Persistent, r.watches.PersistentRecursive = some(), some()
	}
	return r
}

func (g generator) version() int32 { return []int32{-1, -1, -1, 0, 0, 1, 2}[g.IntN(7)] }

func (g generator) parent() string {
	return []string{root, root, "/probe/a", "/probe/b", "/probe/a/b"}[g.IntN(5)]
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

// acl returns an ACL that lets the keeper clean up.
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

// playSteps returns a scenario's body that runs the steps. Two of the clients have credentials.
func playSteps(steps []step) func(*run) {
	return func(s *run) {
		var clients [clientCount]*client
		credentials := []wire.Auth{auth("digest", "ann:secret"), auth("digest", "bob:secret")}
		open := func(i int) {
			clients[i] = s.session(string(rune('a' + i)))
			if i < len(credentials) {
				clients[i].do(credentials[i])
			}
		}
		for i := range clients {
			open(i)
		}
		for _, m := range steps {
			c := clients[m.client]
			switch action := m.do.(type) {
			case reopen:
				s.unordered = true
				c.closeSession()
				s.unordered = false
				open(m.client)
			case reattach:
				c.disconnect()
				clients[m.client] = s.dial(c.name)
				clients[m.client].attach(c)
			case restoreWatches:
				action.watches.RelativeZxid = s.base + action.since
				s.note("since +%d", action.since)
				c.do(action.watches)
			case []any:
				c.pipeline(action...)
			default:
				c.do(action)
			}
		}
	}
}

// shrink removes steps while the rest still fails, in that many tries at most.
func shrink(steps []step, tries int, fails func([]step) bool) []step {
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for from := 0; from+size <= len(steps) && tries > 0; {
			tries--
			rest := append(append([]step{}, steps[:from]...), steps[from+size:]...)
			if fails(rest) {
				steps, shorter = rest, true
			} else {
				from += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return steps
}
