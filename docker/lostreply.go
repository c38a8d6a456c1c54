// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/binary"
	"net"
)

// LoseReply forwards the next request for which match returns true, drops the reply and resets
// the connection once the server has replied: the request took effect, and the client cannot
// know. The returned channel is closed when that has happened.
//
// A frame is a request without the four bytes of its length: xid (int32), opcode (int32) and
// so on, except for a connection's first, the handshake. match must not keep it. The
// connections' goroutines call match, possibly at the same time. LoseReply applies to one
// request. Until that request is sent, another call replaces this one, and Heal cancels it.
func (p *Proxy) LoseReply(match func(frame []byte) bool) <-chan struct{} {
	l := &loss{match: match, happened: make(chan struct{})}
	p.loss.Store(l)
	return l.happened
}

// flow is one direction of a link, split into frames in order to recognize requests and replies.
type flow struct {
	link   *link
	way    Direction
	to     net.Conn
	frames framer
	held   []byte // of a frame that may be the reply to lose
}

// pass forwards bytes. It returns false if the connection must be reset.
func (f *flow) pass(b []byte) bool {
	if f.way == ToServer {
		f.watch(b)
		return f.write(b)
	}
	// It is set before the request is sent, and so before the reply arrives.
	a := f.link.awaited.Load()
	for rest := b; len(rest) > 0; {
		first := f.frames.seen == 0
		frame, n := f.frames.next(rest)
		if a != nil {
			f.held = append(f.held, rest[:n]...)
			if frame != nil {
				if a.isReply(frame, first) {
					f.link.end(true)
					close(a.loss.happened)
					return false
				}
				if !f.write(f.held) {
					return false
				}
				f.held = nil
			}
		}
		rest = rest[n:]
	}
	return a != nil || f.write(b)
}

// watch looks for the request whose reply is to be lost.
func (f *flow) watch(b []byte) {
	for len(b) > 0 {
		first := f.frames.seen == 0
		frame, n := f.frames.next(b)
		b = b[n:]
		loss := f.link.proxy.loss.Load()
		if loss == nil || len(frame) < 4 || f.link.awaited.Load() != nil || !loss.match(frame) {
			continue
		}
		if f.link.proxy.loss.CompareAndSwap(loss, nil) {
			f.link.awaited.Store(&awaited{loss: loss, handshake: first, xid: int32(binary.BigEndian.Uint32(frame))})
		}
	}
}

func (f *flow) write(b []byte) bool {
	_, err := f.to.Write(b)
	return err == nil
}
