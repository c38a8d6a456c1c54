// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A library opens the locks of one project.
type library struct {
	name string
	own  bool // it has its own servers: those of ZooKeeper count nothing for it
	open func(r *round, s setup) (*opened, error)
}

// A setup says what to open: several sessions for one lock, or one session for several locks.
type setup struct {
	sessions, locks int
	timeout         time.Duration
	// contended makes the bare client wait for its predecessor. Without it, a cycle is a create and a delete.
	contended bool
	server    string // address of the only server to use, if any
}

// quiet is a session timeout in whose first part cycles are counted: before the first heartbeat or ping of a library. Crowds take
// longer; there a broken connection would be noticed only by the limit of a round.
const (
	quiet      = time.Minute
	crowdQuiet = 24 * time.Hour
)

// workers is the number of contenders of a setup.
func (s setup) workers() int { return max(s.sessions, s.locks) }

// session returns the number of a worker's session.
func (s setup) session(worker int) int { return min(worker, s.sessions-1) }

// path returns the path of a worker's lock.
func (s setup) path(path string, worker int) string {
	if s.locks == 1 {
		return path
	}
	return fmt.Sprintf("%s-%d", path, worker)
}

// An opened library has workers that contend. A program in another language has cycle only.
type opened struct {
	path  string
	lock  func(ctx context.Context, worker int) (unlock, error)
	try   func(ctx context.Context, worker int) error // of a lock that is held: nil if it was refused
	cycle func(n int) (cycles, error)
	close func()
	traffic
}

// An unlock releases a lock.
type unlock func(ctx context.Context) error

// Cycles are n locks and unlocks of each worker, all workers at the same time.
type cycles struct {
	n    int // of all workers
	took time.Duration
	each []time.Duration // nil if they are not known
}

func (c cycles) rate() float64 { return float64(c.n) / c.took.Seconds() }

// locked returns an opened library whose cycles call lock.
func locked(r *round, s setup, o *opened) *opened {
	o.cycle = func(n int) (cycles, error) {
		c := cycles{n: n * s.workers()}
		var mu sync.Mutex
		began := time.Now()
		err := together(s.workers(), func(worker int) error {
			each := make([]time.Duration, 0, n)
			for range n {
				began := time.Now()
				release, err := o.lock(r, worker)
				if err == nil {
					err = release(r)
				}
				if err != nil {
					return err
				}
				each = append(each, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			c.each = append(c.each, each...)
			return nil
		})
		c.took = time.Since(began)
		return c, err
	}
	return o
}

// dialed returns the connections of the ZooKeeper client for the sessions of a setup, each on one server.
func dialed(r *round, s setup, o *opened) ([]*zk.Conn, error) {
	conns := make([]*zk.Conn, s.sessions)
	o.close = func() {
		_ = each(len(conns), func(i int) error {
			if conns[i] != nil {
				conns[i].Close()
			}
			return nil
		})
	}
	err := each(s.sessions, func(i int) (err error) {
		server := s.server
		if server == "" {
			server = r.server(i)
		}
		conns[i], err = dialBare(r, server, s.timeout, &o.traffic)
		return err
	})
	if err != nil {
		o.close()
	}
	return conns, err
}

// silent discards the log of the ZooKeeper client.
type silent struct{}

func (silent) Printf(string, ...any) {}

// dialBare returns a connection with a session.
func dialBare(ctx context.Context, server string, timeout time.Duration, counted *traffic) (*zk.Conn, error) {
	ready := make(chan struct{})
	var once sync.Once
	conn, events, err := zk.Connect([]string{server}, timeout, zk.WithLogger(silent{}), zk.WithDialer(counted.dialWithin),
		zk.WithEventCallback(func(e zk.Event) {
			if e.State == zk.StateHasSession {
				once.Do(func() { close(ready) })
			}
		}))
	if err != nil {
		return nil, err
	}
	go func() { // ends with the connection
		for range events {
		}
	}()
	select {
	case <-ready:
		return conn, nil
	case <-ctx.Done():
		conn.Close()
		return nil, fmt.Errorf("open a session on %s: %w", server, context.Cause(ctx))
	}
}

// errHeld reports that a lock that is held was acquired.
var errHeld = errors.New("a held lock was acquired")
