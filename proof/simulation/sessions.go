// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// sessions checks that every session that creates a node was reported by its client. When a session has expired, go-zookeeper
// opens another by itself and runs queued requests in it. That must never happen, even where it has no consequence.
type sessions struct {
	mu     sync.Mutex // guards what follows
	opened map[int64]bool
	nodes  map[int64]string // a node that was created in the session
}

func newSessions() *sessions { return &sessions{opened: map[int64]bool{}, nodes: map[int64]string{}} }

// trace returns a trace that records the sessions that a client opens.
func (s *sessions) trace() *recipes.Trace {
	return &recipes.Trace{SessionOpened: func(e recipes.SessionEvent) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opened[e.Session] = true
	}}
}

// nodeCreated records a node that a session creates.
func (s *sessions) nodeCreated(id int64, node string) {
	if id == 0 {
		return // by an operator
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[id] = node
}

// check records a problem for each session that no client reported. It is called at the end of a run.
func (s *sessions) check(w *World) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		if !s.opened[id] {
			w.problemf("session 0x%x created %s, but no client reported that it opened this session", uint64(id), s.nodes[id])
		}
	}
}
