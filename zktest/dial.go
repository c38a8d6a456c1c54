// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// Dial connects to the server at an address of Addrs, in memory. It has the type of
// recipes.Options.Dial.
func (e *Ensemble) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return e.dial(ctx, nil, network, address)
}

// Dialer is Dial in the form that zk.WithDialer takes.
func (e *Ensemble) Dialer() func(network, address string, timeout time.Duration) (net.Conn, error) {
	return dialer(e.Dial)
}

func (e *Ensemble) dial(ctx context.Context, l *Link, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: memoryAddr(address), Err: err}
	}
	var s *Server
	for _, known := range e.servers {
		if known.addr == address {
			s = known
		}
	}
	if s == nil {
		return fail(fmt.Errorf("not an address of this ensemble: use one of %s", strings.Join(e.Addrs(), ", ")))
	}
	for {
		theirs, changed, err := s.acceptInMemory(l)
		switch {
		case err != nil:
			return fail(err)
		case theirs != nil:
			return theirs, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
}

// acceptInMemory makes a connection in memory and returns the client's end. While a
// direction is held it returns changed instead, which is closed at the next change.
func (s *Server) acceptInMemory(l *Link) (theirs net.Conn, changed <-chan struct{}, err error) {
	e := s.ensemble
	e.mu.Lock()
	defer e.unlock()
	imp := s.impairment
	if s.partition == fromAll {
		imp.held = Both
	}
	if l != nil {
		imp.held |= l.impairment.held
		imp.refuse = imp.refuse || l.impairment.refuse
	}
	switch {
	case e.closed:
		return nil, nil, syscall.ECONNREFUSED
	case imp.held != 0:
		return nil, e.changed, nil
	case !s.running || imp.refuse:
		return nil, nil, syscall.ECONNREFUSED
	}
	theirs, ours := net.Pipe()
	s.accept(ours, l, "memory")
	return theirs, nil, nil
}

// memoryAddr is the address of a server for connections in memory.
type memoryAddr string

func (memoryAddr) Network() string { return "memory" }

func (a memoryAddr) String() string { return string(a) }
