// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package register serves the resources that the locks of a torture run protect: for each path a fenced register, which
// checks tokens, and a bare one, which accepts every write. They run in the harness's process, so that no fault affects them.
// [Client] writes to them from a worker process.
//
// A writer sends "PATH CONTENDER ATTEMPT TOKEN\n" for both registers of the path. The fenced one answers "accepted\n" or
// "refused\n".
package register

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

// Registers serve the two registers of each path, and record each decision with its instant.
type Registers struct {
	listener net.Listener
	record   func(history.Event)
	time     clock.Scale
	bare     bool // no tokens exist that a register could check
	serving  sync.WaitGroup

	mu     sync.Mutex // guards what follows
	pairs  map[string]*pair
	conns  map[net.Conn]struct{}
	closed bool
	count  Writes
}

// Writes counts the writes to the registers. Documents contain the JSON names, which do not change.
type Writes struct {
	All              int `json:"all"`                  // writes that reached a pair of registers
	Stale            int `json:"stale"`                // of All: with a token older than one that had written before
	Rejected         int `json:"refused_by_fenced"`    // of Stale
	AcceptedByBare   int `json:"accepted_by_bare"`     // of Stale
	AcceptedByFenced int `json:"stale_let_by_fenced"`  // of Stale: none, or the gate is broken
	WronglyRejected  int `json:"refused_though_newer"` // rejected without being stale: none, or the gate is broken
	Writers          int `json:"stale_writers"`        // grants that sent stale writes
}

// A pair is the two registers of one path.
type pair struct {
	gate   fencing.Gate
	newest fencing.Token     // that has written, recorded independently of the gate
	last   map[bool]decision // by whether the register is fenced
	stale  map[int]bool      // attempts that sent stale writes

	holding Holding // of the newest token
}

// A decision is a register's answer to a write.
type decision struct {
	attempt  int
	accepted bool
}

// New serves registers on a local port until Close. It calls record with each decision that differs from the previous one.
// If bare is set, there are only bare registers, because no tokens exist that a fenced one could check.
func New(time clock.Scale, record func(history.Event), bare bool) (*Registers, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("registers: %w", err)
	}
	r := &Registers{listener: l, record: record, time: time, bare: bare, pairs: map[string]*pair{}, conns: map[net.Conn]struct{}{}}
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

// Write decides on a write as if a client had sent it. Of consecutive writes of one grant it records only the first.
func (r *Registers) Write(by history.Event, token fencing.Token) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pairs[by.Path]
	if p == nil {
		p = &pair{last: map[bool]decision{}, stale: map[int]bool{}}
		r.pairs[by.Path] = p
	}
	var err error
	if !r.bare {
		err = p.gate.Admit(token)
	}
	stale := token < p.newest
	p.newest = max(p.newest, token)
	r.count.All++
	if stale {
		r.count.Stale++
		r.count.AcceptedByBare++
		if !p.stale[by.Attempt] {
			p.stale[by.Attempt] = true
			r.count.Writers++
		}
	}
	switch {
	case stale && err != nil:
		r.count.Rejected++
	case stale && !r.bare:
		r.count.AcceptedByFenced++
	case err != nil:
		r.count.WronglyRejected++
	}
	by.At, by.Kind, by.Token = r.time.Now(), history.Wrote, history.ID(token)
	if !stale {
		p.recordHolding(by)
	}
	for _, fenced := range []bool{true, false} {
		if fenced && r.bare {
			continue
		}
		now := decision{by.Attempt, !fenced || err == nil}
		if p.last[fenced] == now {
			continue
		}
		p.last[fenced] = now
		by.Fenced, by.Accepted = fenced, now.accepted
		r.record(by)
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
