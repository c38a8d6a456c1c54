// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/binary"
	"net"
)

// loss is an answer to be lost, before its request has arrived.
type loss struct {
	match    func(frame []byte) bool
	happened chan struct{}
}

// LoseAnswer forwards the next request for which match returns true, drops the
// server's answer, and then resets the connection: the request took effect, and the
// client cannot know that. The returned channel is closed when this has happened.
//
// A frame is a request without the four bytes of its length: xid (int32), opcode
// (int32) and so on, except for a connection's first, the handshake. match must not
// retain it, and is called from the connections' goroutines, possibly concurrently.
// LoseAnswer affects one request. A second call replaces the first, and Pass cancels
// it, unless the request has been sent already.
func (p *Proxy) LoseAnswer(match func(frame []byte) bool) <-chan struct{} {
	l := &loss{match: match, happened: make(chan struct{})}
	p.loss.Store(l)
	return l.happened
}

// awaited is an answer to be lost whose request has been sent.
type awaited struct {
	loss      *loss
	handshake bool  // it is the first answer, which has no xid
	xid       int32 // of any other
}

func (a *awaited) answeredBy(frame []byte, first bool) bool {
	if a.handshake || first {
		return a.handshake && first
	}
	return len(frame) >= 4 && int32(binary.BigEndian.Uint32(frame)) == a.xid
}

// flow is one direction of a link, split into frames, so that requests and their
// answers can be recognised.
type flow struct {
	link   *link
	way    Direction
	to     net.Conn
	frames framer
	held   []byte // of a frame that may turn out to be the answer to lose
}

// pass forwards bytes. It returns false if the connection must be reset.
func (f *flow) pass(b []byte) bool {
	if f.way == ToServer {
		f.watch(b)
		return f.write(b)
	}
	// It was set before the request was sent, and so before its answer.
	a := f.link.awaited.Load()
	for rest := b; len(rest) > 0; {
		first := f.frames.seen == 0
		frame, n := f.frames.next(rest)
		if a != nil {
			f.held = append(f.held, rest[:n]...)
			if frame != nil {
				if a.answeredBy(frame, first) {
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

// watch looks for the request whose answer is to be lost.
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

// maxFrame is above the default limits of servers and clients. Anything longer is not a
// frame, but a four-letter word, or TLS.
const maxFrame = 4 << 20

// framer cuts a stream into frames. Its zero value is at the start of one.
type framer struct {
	partial []byte // of the current frame, with its length
	seen    int    // complete frames
	blind   bool   // the stream is not made of frames
}

// next consumes b up to the end of the current frame at most, and returns the
// frame without its length if it ends there. The frame is valid until the next
// call.
func (f *framer) next(b []byte) (frame []byte, n int) {
	for !f.blind {
		want := 4
		if len(f.partial) >= 4 {
			size := binary.BigEndian.Uint32(f.partial)
			if size > maxFrame {
				break
			}
			want += int(size)
		}
		if take := want - len(f.partial); take > 0 {
			take = min(take, len(b)-n)
			f.partial = append(f.partial, b[n:n+take]...)
			n += take
			if len(f.partial) < want {
				return nil, n
			}
			if want == 4 {
				continue
			}
		}
		frame = f.partial[4:]
		f.partial = f.partial[:0]
		f.seen++
		return frame, n
	}
	f.blind, f.partial = true, nil
	return nil, len(b)
}
