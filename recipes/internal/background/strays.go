// SPDX-License-Identifier: Apache-2.0

package background

import "sync"

// Strays are goroutines that run code which may not return: a Dial of the options, the
// Close of a connection, the parent of a claim's context. Unlike those of a
// sync.WaitGroup, one may begin while Wait waits, because the ZooKeeper client closes its
// last connection at any time. The zero value is ready to use; it is safe for concurrent
// use.
type Strays struct {
	mu      sync.Mutex // guards what follows
	running int
	none    chan struct{} // closed when running is 0 again; nil if no caller waits
}

// Run runs f on a goroutine.
func (s *Strays) Run(f func()) {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	go func() {
		defer s.end()
		f()
	}()
}

func (s *Strays) end() {
	s.mu.Lock()
	s.running--
	var none chan struct{}
	if s.running == 0 {
		none, s.none = s.none, nil
	}
	s.mu.Unlock()
	if none != nil {
		close(none)
	}
}

// Wait returns when no goroutine is running.
func (s *Strays) Wait() {
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return
	}
	if s.none == nil {
		s.none = make(chan struct{})
	}
	none := s.none
	s.mu.Unlock()
	<-none
}
