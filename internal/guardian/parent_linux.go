// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// A parent is a process whose sessions are closed when it has died. It is safe for concurrent use.
type parent struct {
	dial    DialFunc
	conn    *net.UnixConn
	input   lines // used by one goroutine at a time
	serving sync.WaitGroup

	mu       sync.Mutex // guards what follows
	sessions map[int64]*guarded
	first    *victims // to be killed before a session is closed; nil for none
}

// guarded is a session of a parent.
type guarded struct {
	Session
	forget time.Time // the session has ended by then; zero while it lives
}

// watch serves the process at conn until it has died, and closes its sessions then. It returns when these are closed, or
// cannot be. If ctx is done while the process lives, watch returns without closing a session.
//
// The pidfd alone says that the process has died. The end of the connection does not: a process can close its socket, and
// a forked one can keep it open.
func watch(ctx context.Context, conn *net.UnixConn, dial DialFunc) error {
	defer func() { _ = conn.Close() }() // nothing depends on it
	number, death, rest, err := receiveHello(ctx, conn)
	p := &parent{dial: dial, conn: conn, sessions: map[int64]*guarded{}}
	if err != nil {
		p.answer(number, err)
		return fmt.Errorf("hello: %w", err)
	}
	defer death.close()
	p.answer(number, nil)
	living, died := context.WithCancel(ctx)
	defer died()
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	p.serving.Go(func() { p.read(living, rest) })

	err = death.await(ctx)
	died()
	_ = conn.SetDeadline(time.Unix(1, 0)) // ends read; it fails if that has closed the connection
	p.serving.Wait()
	if err != nil {
		return err
	}
	// What the process sent before its death is in the buffer of the socket, whether or not another process has it open.
	p.drain(living)
	return p.end()
}

// read handles requests until the connection ends, or its deadline is set. read has been received already.
func (p *parent) read(ctx context.Context, read []byte) {
	for buffer := make([]byte, 1<<12); ; {
		if err := p.input.decode(read, func(m message) { p.handle(ctx, m) }); err != nil {
			_ = p.conn.Close() // the process connects again, or starts another guardian
			return
		}
		n, err := p.conn.Read(buffer)
		if err != nil {
			return // the sessions remain guarded
		}
		read = buffer[:n]
	}
}

// drain handles what was sent before the death, without waiting.
func (p *parent) drain(ctx context.Context) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return // read has closed it
	}
	buffer := make([]byte, 1<<12)
	_ = raw.Control(func(fd uintptr) {
		for {
			n, _, err := syscall.Recvfrom(int(fd), buffer, syscall.MSG_DONTWAIT)
			switch {
			case errors.Is(err, syscall.EINTR):
			case err != nil || n <= 0:
				return
			case p.input.decode(buffer[:n], func(m message) { p.handle(ctx, m) }) != nil:
				return
			}
		}
	})
}

// handle handles a request and answers it.
func (p *parent) handle(ctx context.Context, m message) {
	s := m.Session
	if s == nil {
		s = &Session{}
	}
	switch m.Kind {
	case rehearse:
		if ctx.Err() == nil {
			p.serving.Go(func() { p.answer(m.Number, Rehearse(ctx, p.dial, s.Servers, s.Timeout)) })
		}
		return
	case guard:
		p.guard(*s)
	case forget:
		p.forget(s.ID)
	case group:
		p.answer(m.Number, p.killFirst(m.Group))
		return
	default:
		p.answer(m.Number, fmt.Errorf("unknown request %q", m.Kind))
		return
	}
	p.answer(m.Number, nil)
}

// answer answers the request with that number.
func (p *parent) answer(number int64, refusal error) {
	m := message{Number: number}
	if refusal != nil {
		m.Err = refusal.Error()
	}
	if line, err := m.encode(); err == nil {
		_, _ = p.conn.Write(line) // the process learns from the end of the connection
	}
}

func (p *parent) guard(s Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for id, other := range p.sessions {
		if !other.forget.IsZero() && !now.Before(other.forget) {
			delete(p.sessions, id)
		}
	}
	p.sessions[s.ID] = &guarded{Session: s}
}

// forget has the session forgotten 2 T after its end, as the process sees it. The close of a session may not be answered, and a
// session that was abandoned may live: both end by then.
func (p *parent) forget(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[id]; s != nil && s.forget.IsZero() {
		s.forget = time.Now().Add(2 * s.Timeout)
	}
}

// killFirst sets the process group that is killed before a session is closed.
func (p *parent) killFirst(id int) error {
	v, err := newVictims(id)
	p.mu.Lock()
	former := p.first
	p.first = v
	p.mu.Unlock()
	former.close()
	return err
}

// alive returns the sessions that may exist, and what is to be killed before they are closed.
func (p *parent) alive() (sessions []Session, first *victims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		if s.forget.IsZero() || time.Now().Before(s.forget) {
			sessions = append(sessions, s.Session)
		}
	}
	return sessions, p.first
}

// end closes the sessions of a process that has died. It gives each up after T/2.
func (p *parent) end() error {
	died := time.Now()
	sessions, first := p.alive()
	defer first.close()
	longest := time.Duration(0)
	for _, s := range sessions {
		longest = max(longest, s.Timeout)
	}
	bounded, cancel := context.WithDeadline(context.Background(), died.Add(longest/2))
	defer cancel()
	if err := first.kill(bounded); err != nil {
		return err // what runs on may write, and so the sessions expire
	}
	errs := make([]error, len(sessions))
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() {
			ctx, cancel := context.WithDeadline(bounded, died.Add(s.Timeout/2))
			defer cancel()
			if err := s.close(ctx, p.dial); err != nil {
				errs[i] = fmt.Errorf("session 0x%x: %w", uint64(s.ID), err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
