// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// sessions says whether each session is one that its client knows of: the ZooKeeper client opens another by itself when
// one has expired, and runs in it what was meant for the first. That is never to happen, also where nothing comes of it.
type sessions struct {
	mu     sync.Mutex // guards what follows
	opened map[int64]bool
	nodes  map[int64]string // a contender's node that was made in the session
}

func newSessions() *sessions { return &sessions{opened: map[int64]bool{}, nodes: map[int64]string{}} }

// trace is told of the sessions that a client opens.
func (s *sessions) trace() *recipes.Trace {
	return &recipes.Trace{SessionOpened: func(id int64, _ string, _ time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opened[id] = true
	}}
}

// made is told of the nodes that a session makes.
func (s *sessions) made(id int64, node string) {
	if id == 0 {
		return // by hand
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[id] = node
}

// check notes sessions that are nobody's. It is called when nothing happens any more.
func (s *sessions) check(w *World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		if !s.opened[id] {
			w.failf("session 0x%x made %s, and no client has told that it opened such a session", uint64(id), s.nodes[id])
		}
	}
}
