// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A czxids has the czxids of members whose number gives no order. All contenders of a session share them: after an outage, each
// of a thousand waiters would otherwise read the node of each other one.
type czxids struct {
	reads session.Sharing[[]string, map[string]int64] // by path

	mu    sync.Mutex                  // guards what follows
	known map[string]map[string]int64 // by path and name; the inner maps do not change
}

// maxCzxidPaths bounds the paths whose czxids are kept.
const maxCzxidPaths = 1000

// of returns the czxids that are known below path.
func (c *czxids) of(path string) map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[path]
}

// keep replaces the czxids that are known below path.
func (c *czxids) keep(path string, known map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCzxidPaths {
		c.known = make(map[string]map[string]int64)
	}
	c.known[path] = known
}

// read returns the czxids of the names below path that exist. Names do not recur, so each czxid is read once and kept. Callers
// that come while others are read share the next round.
func (c *czxids) read(ctx context.Context, s *client.Session, path string, names []string) (map[string]int64, error) {
	known := c.of(path)
	missing := false
	for _, name := range names {
		missing = missing || known[name] == 0
	}
	if !missing {
		return known, nil
	}
	read, err := c.reads.Do(ctx, s.Session, path, names, func(asked context.Context, asks [][]string) (map[string]int64, error) {
		known, present := c.of(path), make(map[string]int64)
		wanted := make(map[string]bool)
		var unknown []string
		for _, names := range asks {
			for _, name := range names {
				switch czxid, isKnown := known[name]; {
				case isKnown:
					present[name] = czxid
				case !wanted[name]:
					wanted[name] = true
					unknown = append(unknown, name)
				}
			}
		}
		err := readCzxids(asked, s, path, unknown, present)
		if err == nil {
			c.keep(path, present)
		}
		return present, err
	})
	if err != nil && ctx.Err() != nil {
		err = &recipes.Error{Op: "read", Path: path, Err: ctx.Err()}
	}
	return read, err
}

// readCzxids adds the czxids of the names that still exist. The reads are in flight together: one after the other, they
// would, for hundreds of waiters, take seconds at a slow ensemble, in which the queue has no holder.
func readCzxids(asked context.Context, s *client.Session, path string, names []string, to map[string]int64) error {
	var mu sync.Mutex // guards to and failed
	var failed error
	err := session.Each(s.Session, names, func(name string) {
		_, stat, err := s.GetWhileAsked(asked, session.Ordinary, path+"/"+name)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			to[name] = stat.Czxid
		case !errors.Is(err, zk.ErrNoNode):
			failed = err
		}
	})
	return cmp.Or(failed, err)
}

// orderable reads the czxid of those members whose number does not give their position. It omits members that no longer exist.
func (q *Queue) orderable(ctx context.Context, s *client.Session, members []protocol.Member) ([]protocol.Member, error) {
	names := protocol.Unordered(members)
	if len(names) == 0 {
		return members, nil
	}
	present, err := shared.Of(s).czxids.read(ctx, s, q.path, names)
	if err != nil {
		return nil, err
	}
	gone := make(map[string]bool)
	for _, name := range names {
		gone[name] = present[name] == 0
	}
	ordered := make([]protocol.Member, 0, len(members))
	for _, m := range members {
		if gone[m.Name] {
			continue
		}
		if m.Czxid == 0 {
			m.Czxid = present[m.Name]
		}
		ordered = append(ordered, m)
	}
	return ordered, nil
}
