// SPDX-License-Identifier: Apache-2.0

// Package wire reads along on the connections that the ZooKeeper client makes.
package wire

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

	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
)

// Numbers of the ZooKeeper protocol that a wire looks for.
const (
	opTransaction  = 14
	opSetAuth      = 100
	opSetWatches   = 101
	xidWatchEvent  = -1
	maxHelloLength = 256 // a connect reply has 36 or 37 bytes
)

// quorumWrites are the operations that a server carries out only through the
// quorum, and only for a session that the quorum takes to be alive.
var quorumWrites = []int32{
	1, // create
	2, // delete
	5, // setData
	7, // setACL
	opTransaction,
	15, // create2
	19, // createContainer
	21, // createTTL
}

// A packet is a request on its way.
type packet struct {
	sent time.Time
	xid  int32 // names it in its reply; 0: the handshake
	op   int32 // 0: the handshake
}

// A Hello is the server's reply to a connect request.
type Hello struct {
	Timeout   time.Duration // T, as negotiated
	SessionID int64         // 0: the session that was asked for has expired
	Frame     []byte        // all of it
}

// A Wire is one connection to one server, as the ZooKeeper client sees it. It
// reads along: the negotiated timeout, which the client keeps to itself, and
// which packets were answered when, which the deadline is computed from. And it
// bounds the handshake, which the client would wait out for 6.67 × T.
type Wire struct {
	net.Conn
	r          *bufio.Reader
	greetBy    time.Time // when the handshake must have ended
	hooks      Hooks
	blocking   *background.Strays // counts the goroutine that closes the connection
	closed     chan struct{}      // once it is to end
	closeOnce  sync.Once          // guards closing it
	zxids      zxids              // what changes of it is the reader's
	handshaken bool               // set by the reader, before the client starts its other goroutines
	left       int                // bytes of the frame that the reader is in; used by the reader only

	mu        sync.Mutex // guards what follows
	inFlight  []packet   // those that were not answered yet, in order
	replied   time.Time  // when the last answer came
	unwritten error      // why a packet could not be sent
}

// Hooks are called by the goroutine that reads from the Wire. They must not wait.
type Hooks struct {
	Greeted  func(Hello) error              // once, with the reply to the handshake, before the client reads it
	Failed   func(error)                    // if the handshake failed, with the reason
	Answered func(sent time.Time)           // for each packet that was answered
	Proved   func(sent, answered time.Time) // for each write that a quorum answered
}

// New returns a Wire over conn, whose handshake ends by greetBy. previous is the session's
// connection before this one, nil if it is the first: the ZooKeeper client must have ended
// the goroutine that read from it. watching reports whether the client may have watches to
// set again. blocking counts the goroutine that closes conn.
func New(conn net.Conn, greetBy time.Time, previous *Wire, watching bool, blocking *background.Strays, hooks Hooks) *Wire {
	w := &Wire{
		Conn:     conn,
		r:        bufio.NewReaderSize(conn, 16<<10),
		greetBy:  greetBy,
		hooks:    hooks,
		blocking: blocking,
		closed:   make(chan struct{}),
		zxids:    zxids{restored: true}, // there are no watches yet
	}
	if previous != nil {
		w.zxids = previous.zxids.next(watching)
	}
	return w
}

// Write sends one packet: the client passes each in one call.
//
// It never fails: a packet that cannot be sent ends the connection, and is then
// failed by the reader's end with all others that were not answered. The client
// answers a request whose Write has failed twice, and a third time if it is being
// closed; where nobody takes the answers, it is stuck for good in the middle of
// one of them (go-zookeeper v1.0.4: sendData, queueRequest, flushRequests).
func (w *Wire) Write(p []byte) (int, error) {
	// A handshake has no operation: the epoch of the last zxid stands in its place.
	var xid, op int32
	if w.handshaken && len(p) >= 12 {
		xid, op = int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	}
	// Noted before it is sent: a reply must find it, and an instant that is too
	// early errs on the safe side.
	w.mu.Lock()
	w.inFlight = append(w.inFlight, packet{sent: time.Now(), xid: xid, op: op})
	w.mu.Unlock()
	_, err := w.Conn.Write(w.zxids.fill(p, op, w.handshaken))
	if err != nil {
		w.mu.Lock()
		w.unwritten = err
		w.mu.Unlock()
		w.Sever()
	}
	return len(p), nil
}

// Read passes the server's bytes on, frame by frame.
func (w *Wire) Read(p []byte) (int, error) {
	if !w.handshaken {
		h, err := w.greet()
		if w.isClosed() {
			err = fmt.Errorf("handshake: %w", net.ErrClosed) // by us, whatever the error says
		}
		if err == nil {
			err = w.hooks.Greeted(h)
		}
		if err != nil {
			w.mu.Lock()
			if w.unwritten != nil {
				err = fmt.Errorf("handshake: %w", w.unwritten)
			}
			w.mu.Unlock()
			w.hooks.Failed(err)
			return 0, err
		}
		w.answer(0)
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

func (w *Wire) isClosed() bool {
	select {
	case <-w.closed:
		return true
	default:
		return false
	}
}

// greet looks at the connect reply without consuming it.
func (w *Wire) greet() (Hello, error) {
	head, err := w.r.Peek(4)
	if err != nil {
		return Hello{}, explainHandshake(err)
	}
	n := int(binary.BigEndian.Uint32(head))
	// Whatever else listens there would have the client allocate what its first
	// four bytes happen to say.
	if n < 36 || n > maxHelloLength {
		return Hello{}, fmt.Errorf("not a ZooKeeper server: its answer to the handshake begins with %q", head)
	}
	frame, err := w.r.Peek(4 + n)
	if err != nil {
		return Hello{}, explainHandshake(err)
	}
	w.left = 4 + n
	return Hello{
		Timeout:   time.Duration(int32(binary.BigEndian.Uint32(frame[8:]))) * time.Millisecond,
		SessionID: int64(binary.BigEndian.Uint64(frame[12:])),
		Frame:     slices.Clone(frame),
	}, nil
}

// ErrUnanswered says that a server took the handshake and said nothing. It may have
// heard it all the same, and taken the session to be alive.
var ErrUnanswered = errors.New("accepted the connection and did not answer the handshake")

// explainHandshake says what a server means by not answering.
func explainHandshake(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("closed the connection during the handshake: not serving (no quorum, read-only) or behind what this session has seen (lost its data)")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return fmt.Errorf("handshake: %w", err)
}

// nextFrame waits for the next frame and notes what it answers.
func (w *Wire) nextFrame() error {
	head, err := w.r.Peek(8)
	if err != nil {
		return err
	}
	w.left = 4 + int(binary.BigEndian.Uint32(head))
	xid := int32(binary.BigEndian.Uint32(head[4:]))
	var p packet
	if xid != xidWatchEvent {
		var now time.Time
		p, now = w.answer(xid)
		if slices.Contains(quorumWrites, p.op) {
			proof, err := w.isProof(p.op)
			if err != nil {
				return err
			}
			if proof {
				w.hooks.Proved(p.sent, now)
			}
		}
	}
	if xid < 0 || w.left < zxidOfReply+8 {
		return nil // an event or a ping: the client takes no zxid from it
	}
	head, err = w.r.Peek(zxidOfReply + 8)
	if err != nil {
		return err
	}
	w.zxids.hide(head, p.op)
	return nil
}

// answer notes that the packet xid was answered: the oldest in flight, as a server
// answers the packets of one connection in the order in which they came.
func (w *Wire) answer(xid int32) (p packet, now time.Time) {
	now = time.Now()
	w.mu.Lock()
	i := slices.IndexFunc(w.inFlight, func(p packet) bool { return p.xid == xid })
	if i < 0 {
		w.mu.Unlock()
		return packet{}, now
	}
	p = w.inFlight[i]
	if i == 0 {
		w.inFlight = w.inFlight[1:]
	} else {
		w.inFlight = slices.Delete(w.inFlight, i, i+1)
	}
	w.replied = now
	w.mu.Unlock()
	w.hooks.Answered(p.sent)
	return p, now
}

// isProof looks at the reply to a write, and reports whether a quorum carried the
// write out, or decided not to, for a session that it takes to be alive.
//
// A transaction that was refused is proof if its first operation to fail met a
// missing node or another version: the leader looks at the session before it looks
// at the node. Other refusals say less, or that the session has ended.
func (w *Wire) isProof(op int32) (bool, error) {
	const header, result = 4 + 4 + 8 + 4, 4 + 1 + 4 // length, xid, zxid, error; type, done, error
	if w.left < header {
		return false, nil
	}
	head, err := w.r.Peek(header)
	if err != nil {
		return false, err
	}
	if binary.BigEndian.Uint32(head[16:]) != 0 {
		return false, nil
	}
	if op != opTransaction {
		return true, nil
	}
	frame, err := w.r.Peek(min(w.left, w.r.Size()))
	if err != nil {
		return false, err
	}
	for body := frame[header:]; len(body) >= result; body = body[result+4:] {
		switch {
		case body[4] != 0:
			return false, nil // no operation, or none that was looked at
		case int32(binary.BigEndian.Uint32(body)) != -1:
			return true, nil
		case len(body) < result+4:
			return false, nil
		}
		switch int32(binary.BigEndian.Uint32(body[result:])) {
		case 0, -2: // would have been carried out; was not looked at
		case -101, -103: // no node, bad version
			return true, nil
		default:
			return false, nil
		}
	}
	return false, nil
}

// Sever ends the connection. It does not wait for that: to close it can block, where a
// tunnel is asked for it, or a socket lingers. Under TLS, Close would say good-bye first.
func (w *Wire) Sever() {
	conn := w.Conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	w.end(conn)
}

// Close ends the connection. It does not wait.
func (w *Wire) Close() error {
	w.end(w.Conn)
	return nil
}

func (w *Wire) end(conn net.Conn) {
	w.closeOnce.Do(func() {
		close(w.closed)
		w.blocking.Run(func() {
			// A Read or Write that Close does not end is ended by this. Errors say
			// that the connection has ended already.
			_ = conn.SetDeadline(longAgo)
			_ = conn.Close()
		})
	})
}

// SilentFor reports whether a packet waits for its answer, and for how long the server has
// answered nothing since it was asked. A server that works through a long queue is not
// silent. Behind a write that is not answered, nothing of the same session is.
func (w *Wire) SilentFor(now time.Time) (asked bool, silent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.inFlight) == 0 {
		return false, 0
	}
	since := w.inFlight[0].sent
	if w.replied.After(since) {
		since = w.replied
	}
	return true, now.Sub(since)
}

// SetReadDeadline keeps the client from extending the handshake, or a Read of a
// connection that was closed.
func (w *Wire) SetReadDeadline(t time.Time) error { return w.setDeadline(w.Conn.SetReadDeadline, t) }

// SetWriteDeadline keeps the client from extending the handshake, or a Write to a
// connection that was closed.
func (w *Wire) SetWriteDeadline(t time.Time) error { return w.setDeadline(w.Conn.SetWriteDeadline, t) }

func (w *Wire) setDeadline(set func(time.Time) error, t time.Time) error {
	err := set(w.bound(t))
	// Looked at afterwards: whichever of this and end comes second has the last word.
	if w.isClosed() {
		return set(longAgo)
	}
	return err
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// bound is called by the goroutine that shakes hands, and by those that the
// client starts afterwards.
func (w *Wire) bound(t time.Time) time.Time {
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
