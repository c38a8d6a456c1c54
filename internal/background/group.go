// SPDX-License-Identifier: Apache-2.0

package background

import "sync"

// A Group is a set of goroutines that run code which may not return: a Dial of the options, the
// Close of a connection, the parent of a claim's context. Unlike the goroutines of a
// sync.WaitGroup, one may begin while Wait waits, because the ZooKeeper client closes its
// last connection at any time. The zero value is ready to use; it is safe for concurrent
// use.
type Group struct {
	mu      sync.Mutex // guards what follows
	running int
	none    chan struct{} // closed when running is 0 again; nil if no caller waits
}

// Run runs f on a goroutine.
func (g *Group) Run(f func()) {
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
	go func() {
		defer g.end()
		f()
	}()
}

func (g *Group) end() {
	g.mu.Lock()
	g.running--
	var none chan struct{}
	if g.running == 0 {
		none, g.none = g.none, nil
	}
	g.mu.Unlock()
	if none != nil {
		close(none)
	}
}

// Wait returns when no goroutine is running.
func (g *Group) Wait() {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return
	}
	if g.none == nil {
		g.none = make(chan struct{})
	}
	none := g.none
	g.mu.Unlock()
	<-none
}
