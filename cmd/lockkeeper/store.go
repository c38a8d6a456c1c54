// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A row is what was written, by whom, and with which token.
type row struct {
	number int
	writer string
	token  fencing.Token
}

// A store is the resource that the leader has to itself. It never speaks to
// ZooKeeper: all that it knows is the newest token that it has seen. Safe for
// concurrent use.
type store struct {
	mu   sync.Mutex // guards rows, and holds each write together with its admission
	gate fencing.Gate
	rows []row
}

// write appends a row, or refuses its token with a *fencing.StaleError.
func (s *store) write(r row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.gate.Admit(r.token); err != nil {
		return err
	}
	s.rows = append(s.rows, r)
	return nil
}

// written returns the rows in the order in which they were written.
func (s *store) written() []row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows)
}
