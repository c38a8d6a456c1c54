// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package register has the resources behind the locks of a torture run: for each path a register that checks tokens and a bare
// one that accepts every write. They run in the harness's process, so that no fault touches them; [Client] writes to them from
// a worker process.
//
// A writer sends "PATH CONTENDER ATTEMPT TOKEN\n", for both registers of the path, and is answered "accepted\n" or
// "refused\n" by the one that checks.
package register

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
)

// Registers serve the two registers of each path, and record each decision with its instant.
type Registers struct {
	listener net.Listener
	note     func(history.Event)
	time     clock.Scale
	bare     bool // no tokens exist that a register could check
	serving  sync.WaitGroup

	mu     sync.Mutex // guards what follows
	books  map[string]*book
	conns  map[net.Conn]struct{}
	closed bool
	count  Writes
}

// Writes counts the writes to the registers.
type Writes struct {
	All      int `json:"all"`                  // that reached a pair of registers
	Stale    int `json:"stale"`                // of them, with a token older than one that had written before
	Refused  int `json:"refused_by_fenced"`    // of the stale ones
	Accepted int `json:"accepted_by_bare"`     // of the stale ones
	Let      int `json:"stale_let_by_fenced"`  // stale ones that the fenced register accepted: none, or the gate is broken
	Wronged  int `json:"refused_though_newer"` // refused without being stale: none, or the gate is broken
	Holders  int `json:"stale_writers"`        // grants that sent stale writes
}

// A book records the writes to the registers of one path.
type book struct {
	gate   fencing.Gate
	newest fencing.Token  // that has written, recorded independently of the gate
	last   map[bool]noted // by whether the register is fenced
	late   map[int]bool   // attempts that sent stale writes

	holding Holding // of the newest token
}

type noted struct {
	attempt  int
	accepted bool
}

// New serves registers on a local port until Close. It calls note with each decision that differs from the previous one. If
// bare is set, there are only bare registers, because no tokens exist that a fenced one could check.
func New(time clock.Scale, note func(history.Event), bare bool) (*Registers, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("registers: %w", err)
	}
	r := &Registers{listener: l, note: note, time: time, bare: bare, books: map[string]*book{}, conns: map[net.Conn]struct{}{}}
	r.serving.Go(r.accept)
	return r, nil
}

// Addr returns host:port of the registers, for clients.
func (r *Registers) Addr() string { return r.listener.Addr().String() }

func (r *Registers) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.mu.Lock()
		if r.closed {
			err = conn.Close()
		} else {
			r.conns[conn] = struct{}{}
			r.serving.Go(func() { r.serve(conn) })
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (r *Registers) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close() // the writer has ended, or is about to
		r.mu.Lock()
		delete(r.conns, conn)
		r.mu.Unlock()
	}()
	for in := bufio.NewScanner(conn); in.Scan(); {
		var by history.Event
		var token fencing.Token
		if _, err := fmt.Sscan(in.Text(), &by.Path, &by.Contender, &by.Attempt, (*int64)(&token)); err != nil {
			return
		}
		answer := "accepted\n"
		if err := r.Write(by, token); err != nil {
			answer = "refused\n"
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// Write decides on a write as if a client had sent it. Of consecutive writes of one grant, it records the first.
func (r *Registers) Write(by history.Event, token fencing.Token) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.books[by.Path]
	if b == nil {
		b = &book{last: map[bool]noted{}, late: map[int]bool{}}
		r.books[by.Path] = b
	}
	var err error
	if !r.bare {
		err = b.gate.Admit(token)
	}
	stale := token < b.newest
	b.newest = max(b.newest, token)
	r.count.All++
	if stale {
		r.count.Stale++
		r.count.Accepted++
		if !b.late[by.Attempt] {
			b.late[by.Attempt] = true
			r.count.Holders++
		}
	}
	switch {
	case stale && err != nil:
		r.count.Refused++
	case stale && !r.bare:
		r.count.Let++
	case err != nil:
		r.count.Wronged++
	}
	by.At, by.Kind, by.Token = r.time.Now(), history.Wrote, history.ID(token)
	if !stale {
		b.holdsNow(by)
	}
	for _, fenced := range []bool{true, false} {
		if fenced && r.bare {
			continue
		}
		now := noted{by.Attempt, !fenced || err == nil}
		if b.last[fenced] == now {
			continue
		}
		b.last[fenced] = now
		by.Fenced, by.Accepted = fenced, now.accepted
		r.note(by)
	}
	return err
}

// Counts returns the counts so far.
func (r *Registers) Counts() Writes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Close ends all connections and returns when no write is being decided.
func (r *Registers) Close() error {
	r.mu.Lock()
	r.closed = true
	for conn := range r.conns {
		_ = conn.Close() // it may be closed already
	}
	r.mu.Unlock()
	err := r.listener.Close()
	r.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
