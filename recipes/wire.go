// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Numbers of the ZooKeeper protocol that a wire looks for.
const (
	opSetAuth      = 100
	opSetWatches   = 101
	xidWatchEvent  = -1
	maxHelloLength = 256 // a connect reply has 36 or 37 bytes
)

// A hello is the server's reply to a connect request.
type hello struct {
	timeout   time.Duration // T, as negotiated
	sessionID int64         // 0: the session that was asked for has expired
}

// A wire is one connection to one server, as the ZooKeeper client sees it. It
// reads along: the negotiated timeout, which the client keeps to itself, and
// which packets were answered when, which the deadline is computed from. And it
// bounds the handshake, which the client would wait out for 6.67 × T.
type wire struct {
	net.Conn
	r          *bufio.Reader
	greetBy    time.Time            // when the handshake must have ended
	greeted    func(hello) error    // told once, before the client learns of it
	failed     func(error)          // told why the handshake came to nothing
	answered   func(sent time.Time) // told of each answered packet
	closed     chan struct{}        // ends a Read that waits at the gate
	closeOnce  sync.Once            // guards closing it
	gate       chan struct{}        // closed once replies may pass; nil: they always may
	gateBound  time.Duration        // how long they wait at most
	openGate   sync.Once            // guards closing gate
	handshaken bool                 // set by the reader, before the client starts its other goroutines
	left       int                  // bytes of the frame that the reader is in; used by the reader only

	mu        sync.Mutex  // guards what follows
	inFlight  []time.Time // when the packets that were not answered yet were sent, in order
	replied   time.Time   // when the last answer came
	unwritten error       // why a packet could not be sent
	auths     []int32     // xids of the credentials sent since the gate was shut
}

// Write sends one packet: the client passes each in one call.
//
// It never fails: a packet that cannot be sent ends the connection, and is then
// failed by the reader's end with all others that were not answered. The client
// answers a request whose Write has failed twice, and a third time if it is being
// closed; where nobody takes the answers, it is stuck for good in the middle of
// one of them (go-zookeeper v1.0.4: sendData, queueRequest, flushRequests).
func (w *wire) Write(p []byte) (int, error) {
	// A handshake has no operation: the epoch of the last zxid stands in its place.
	if w.gate != nil && w.handshaken && len(p) >= 12 {
		xid, op := int32(binary.BigEndian.Uint32(p[4:])), binary.BigEndian.Uint32(p[8:])
		switch op {
		case opSetWatches:
			defer w.openGate.Do(func() { close(w.gate) })
		case opSetAuth:
			w.mu.Lock()
			w.auths = append(w.auths, xid)
			w.mu.Unlock()
		}
	}
	// Noted before it is sent: a reply must find it, and an instant that is too
	// early errs on the safe side.
	w.mu.Lock()
	w.inFlight = append(w.inFlight, time.Now())
	w.mu.Unlock()
	if _, err := w.Conn.Write(p); err != nil {
		w.mu.Lock()
		w.unwritten = err
		w.mu.Unlock()
		w.sever()
	}
	return len(p), nil
}

// Read passes the server's bytes on, frame by frame.
func (w *wire) Read(p []byte) (int, error) {
	if !w.handshaken {
		h, err := w.greet()
		if err == nil {
			err = w.greeted(h)
		}
		if err != nil {
			w.mu.Lock()
			if w.unwritten != nil {
				err = fmt.Errorf("handshake: %w", w.unwritten)
			}
			w.mu.Unlock()
			w.failed(err)
			return 0, err
		}
		w.answer()
		w.handshaken = true
	}
	if w.left == 0 {
		if err := w.nextFrame(); err != nil {
			return 0, err
		}
	}
	n, err := w.r.Read(p[:min(len(p), w.left)])
	w.left -= n
	return n, err
}

// greet looks at the connect reply without consuming it.
func (w *wire) greet() (hello, error) {
	head, err := w.r.Peek(4)
	if err != nil {
		return hello{}, explainHandshake(err)
	}
	n := int(binary.BigEndian.Uint32(head))
	// Whatever else listens there would have the client allocate what its first
	// four bytes happen to say.
	if n < 36 || n > maxHelloLength {
		return hello{}, fmt.Errorf("not a ZooKeeper server: its answer to the handshake begins with %q", head)
	}
	frame, err := w.r.Peek(4 + n)
	if err != nil {
		return hello{}, explainHandshake(err)
	}
	w.left = 4 + n
	return hello{
		timeout:   time.Duration(int32(binary.BigEndian.Uint32(frame[8:]))) * time.Millisecond,
		sessionID: int64(binary.BigEndian.Uint64(frame[12:])),
	}, nil
}

// errUnanswered says that a server took the handshake and said nothing. It may have
// heard it all the same, and taken the session to be alive.
var errUnanswered = errors.New("accepted the connection and did not answer the handshake")

// explainHandshake says what a server means by not answering.
func explainHandshake(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("closed the connection during the handshake: not serving (no quorum, read-only) or behind what this session has seen (lost its data)")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return fmt.Errorf("handshake: %w", err)
}

// nextFrame waits for the next frame, notes what it answers, and holds it at the
// gate if it must.
func (w *wire) nextFrame() error {
	head, err := w.r.Peek(8)
	if err != nil {
		return err
	}
	w.left = 4 + int(binary.BigEndian.Uint32(head))
	xid := int32(binary.BigEndian.Uint32(head[4:]))
	if xid != xidWatchEvent {
		w.answer()
	}
	return w.passGate(xid)
}

// passGate holds a reply until the client has sent its watches again. The client
// reads its last zxid for that in one goroutine while another, which handles
// replies, may be writing it: a data race of go-zookeeper v1.0.4, that happens
// at each reconnection with watches. Nothing is answered before that request is
// out, but for credentials, whose replies carry no zxid. The bound is for the
// case that the client has no watches left and so sends none.
func (w *wire) passGate(xid int32) error {
	if w.gate == nil {
		return nil
	}
	w.mu.Lock()
	auth := slices.Contains(w.auths, xid)
	w.mu.Unlock()
	if auth {
		return nil
	}
	timer := time.NewTimer(w.gateBound)
	defer timer.Stop()
	select {
	case <-w.gate:
	case <-timer.C:
		w.openGate.Do(func() { close(w.gate) })
	case <-w.closed:
		return net.ErrClosed
	}
	return nil
}

// answer notes that the oldest packet in flight was answered: a server answers
// the packets of one connection in the order in which they came.
func (w *wire) answer() {
	w.mu.Lock()
	if len(w.inFlight) == 0 {
		w.mu.Unlock()
		return
	}
	sent := w.inFlight[0]
	w.inFlight = w.inFlight[1:]
	w.replied = time.Now()
	w.mu.Unlock()
	w.answered(sent)
}

// sever ends the connection at once. Under TLS, Close would say good-bye first, and
// wait for that.
func (w *wire) sever() {
	w.closeOnce.Do(func() { close(w.closed) })
	conn := w.Conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	// Its error would be that it is closed already.
	_ = conn.Close()
}

// silentFor is how long the server has answered nothing although it was asked. One
// that works through a long queue is not silent; and behind a write that is not
// answered, nothing of the same session is.
func (w *wire) silentFor(now time.Time) (asked bool, silent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.inFlight) == 0 {
		return false, 0
	}
	since := w.inFlight[0]
	if w.replied.After(since) {
		since = w.replied
	}
	return true, now.Sub(since)
}

// SetReadDeadline keeps the client from extending the handshake.
func (w *wire) SetReadDeadline(t time.Time) error { return w.Conn.SetReadDeadline(w.bound(t)) }

// SetWriteDeadline keeps the client from extending the handshake.
func (w *wire) SetWriteDeadline(t time.Time) error { return w.Conn.SetWriteDeadline(w.bound(t)) }

// bound is called by the goroutine that shakes hands, and by those that the
// client starts afterwards.
func (w *wire) bound(t time.Time) time.Time {
	if w.handshaken {
		return t
	}
	return earlier(t, w.greetBy)
}

func earlier(t, bound time.Time) time.Time {
	if t.IsZero() || bound.Before(t) {
		return bound
	}
	return t
}

// Close ends the connection, and a Read that waits at the gate.
func (w *wire) Close() error {
	w.closeOnce.Do(func() { close(w.closed) })
	return w.Conn.Close()
}
