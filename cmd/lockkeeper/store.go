// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A row is one write, with its writer and its token.
type row struct {
	number int
	writer string
	token  fencing.Token
}

// A store is the resource that only the leader may write. It has no connection to
// ZooKeeper: it compares each token with the newest one that it has admitted. It is safe
// for concurrent use.
type store struct {
	mu   sync.Mutex // guards rows, and makes each write and its check one step
	gate fencing.Gate
	rows []row
}

// write appends a row, or rejects its token with a *fencing.StaleError.
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
