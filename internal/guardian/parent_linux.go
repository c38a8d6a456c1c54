// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	*Sessions

	mu    sync.Mutex // guards what follows
	first *victims   // to be killed before a session is closed; nil for none
}

// watch serves the process at conn until it has died, and closes its sessions then. It returns when these are closed, or
// cannot be. If ctx is done while the process lives, watch returns without closing a session.
//
// The pidfd alone says that the process has died. The end of the connection does not: a process can close its socket, and
// a forked one can keep it open. But a process that has closed its socket can register no session: watch returns if none is left.
func watch(ctx context.Context, conn *net.UnixConn, dial DialFunc) error {
	defer func() { _ = conn.Close() }() // nothing depends on it
	number, death, rest, err := receiveHello(ctx, conn)
	p := &parent{dial: dial, conn: conn, Sessions: NewSessions()}
	switch {
	case errors.Is(err, io.EOF):
		return nil // a probe
	case err != nil:
		p.answer(number, err)
		return fmt.Errorf("register a process: %w", err)
	}
	defer death.close()
	p.answer(number, nil)
	living, died := context.WithCancel(ctx)
	defer died()
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("register a process: %w", err)
	}
	defer func() { p.killed().close() }()
	p.serving.Go(func() { p.read(living, rest) })

	needed, unneeded := context.WithCancel(ctx)
	unused := make(chan struct{})
	go func() { // this function waits for it
		defer close(unused)
		p.awaitUnused(needed)
		unneeded()
	}()
	err = death.await(needed)
	unneeded()
	died()
	_ = conn.SetDeadline(time.Unix(1, 0)) // ends read; it fails if that has closed the connection
	p.serving.Wait()
	<-unused
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() == nil:
		return nil // the process lives, and has no session here
	case err != nil:
		return err
	}
	// What the process sent before its death is in the buffer of the socket, whether or not another process has it open.
	p.drain(living)
	if err := p.Close(p.dial, p.killed().kill); err != nil {
		return fmt.Errorf("close the sessions of a dead process: %w", err)
	}
	return nil
}

// read handles requests until the connection ends, or its deadline is set. read has been received already.
func (p *parent) read(ctx context.Context, read []byte) {
	for buffer := make([]byte, 1<<12); ; {
		if err := p.input.decode(read, func(m message) { p.handle(ctx, m) }); err != nil {
			_ = p.conn.Close() // the process connects again, or starts another guardian
			return
		}
		n, err := p.conn.Read(buffer)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			_ = p.conn.Close() // everything was read; the pidfd remains
		}
		if err != nil {
			return // the sessions remain guarded
		}
		read = buffer[:n]
	}
}

// awaitUnused waits until the connection has ended and every session is forgotten, so that nothing is to be done after a death. It
// waits for the end of ctx if a session is not, or if there is a process group to be killed.
func (p *parent) awaitUnused(ctx context.Context) {
	p.serving.Wait() // nothing is registered from now on
	last, all := p.forgotten()
	if !all || p.killed() != nil {
		<-ctx.Done()
		return
	}
	pause(ctx, time.Until(last))
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
		p.Guard(*s)
	case forget:
		p.Forget(s.ID)
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

// killed returns what is to be killed before a session is closed.
func (p *parent) killed() *victims {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}
