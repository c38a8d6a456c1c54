// SPDX-License-Identifier: Apache-2.0

// Package wire observes the connections that the ZooKeeper client opens.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/background"
)

// A Hello is the server's reply to a connect request.
type Hello struct {
	Timeout   time.Duration // T, as negotiated
	SessionID int64         // 0: the requested session has expired, or was replaced
	Replaced  bool          // the server has opened another session, and the requested one ends at its timeout
	Frame     []byte        // all of it
}

// Password returns the password of the session.
func (h Hello) Password() []byte {
	const length = sessionOfHello + 8
	if len(h.Frame) < length+4 {
		return nil
	}
	password := h.Frame[length+4:]
	return password[:min(len(password), int(binary.BigEndian.Uint32(h.Frame[length:])))]
}

// A Wire is one connection to one server, as the ZooKeeper client sees it. It observes the
// negotiated timeout, which the client does not expose, and when each packet was answered,
// from which the deadline is computed. It also bounds the handshake, for which the client
// would wait 6.67 × T.
type Wire struct {
	net.Conn
	r          *bufio.Reader
	greetBy    time.Time // when the handshake must have ended
	hooks      Hooks
	blocking   *background.Group // counts the goroutine that closes the connection
	closed     chan struct{}     // closed once the connection is to end
	closeOnce  sync.Once         // guards closing it
	zxids      zxids             // only the reader changes it
	watches    watches           // used by the reader only
	handshaken bool              // set by the reader, before the client starts its other goroutines
	left       int               // bytes of the frame that the reader is in; used by the reader only
	op         int32             // of the packet that this frame answers, 0 for an event; used by the reader only
	unread     []byte            // what the client reads before the connection: the reply to the handshake, after a login, or a refusal
	presented  int64             // the session that the client asked for, 0 for a new one; written before it reads

	mu        sync.Mutex // guards what follows
	inFlight  []packet   // those that have not been answered, in order
	replied   time.Time  // when the last answer came
	asked     time.Time  // see Unserved
	unwritten error      // why a packet could not be sent
	passing   bool       // the client reads a frame, or decodes it
	settling  bool       // Settle was called
	settled   chan struct{}
	hungUp    bool // the server ended the connection
	ended     bool // the server ended the session, as it was asked to
}

// Hooks are called by the goroutine that reads from the Wire. They must not block, except Login.
type Hooks struct {
	Greeted  func(Hello) error              // once, with the reply to the handshake, before the client reads it
	Login    func(exchange Exchange) error  // after Greeted, unless the session has expired; nil for none
	Failed   func(error)                    // if the handshake failed, with the reason
	Answered func(sent time.Time)           // for each packet that was answered
	Proved   func(sent, answered time.Time) // for each write that a quorum answered
	MaxReply int                            // bytes of a reply that the client accepts; 0: any number
	Unset    func()                         // if the server refused to set watches again: the client goes on as if it had
}

// An Exchange sends one token of SASL to the server, and returns the one that answers it. An error wraps
// ErrRefused if the server refused the token.
type Exchange func(token []byte) (answer []byte, err error)

// New returns a Wire over conn, whose handshake ends by greetBy. previous is the session's
// connection before this one, nil if it is the first: the ZooKeeper client must have ended
// the goroutine that read from it. blocking counts the goroutine that closes conn.
func New(conn net.Conn, greetBy time.Time, previous *Wire, blocking *background.Group, hooks Hooks) *Wire {
	w := &Wire{
		Conn:     conn,
		r:        bufio.NewReaderSize(conn, 16<<10),
		greetBy:  greetBy,
		hooks:    hooks,
		blocking: blocking,
		closed:   make(chan struct{}),
		settled:  make(chan struct{}),
		watches:  watches{confirmed: make(map[watch]int)},
	}
	if previous != nil {
		w.asked = previous.Unserved()
		w.zxids = previous.zxids.next(previous.watches.complete())
		w.watches = previous.watches.next()
	}
	return w
}

// Write sends one packet: the client passes each in one call.
//
// It never fails: a packet that cannot be sent ends the connection. The end of the reader then
// fails it, with all others that were not answered. If a Write fails, the client answers the
// request twice, and a third time if the client is being closed; if no caller receives the
// answers, the client blocks for good in one of them (go-zookeeper v1.0.4: sendData,
// queueRequest, flushRequests).
func (w *Wire) Write(p []byte) (int, error) {
	// A handshake has no operation: the epoch of the last zxid stands in its place.
	var xid, op int32
	if !w.handshaken && len(p) >= sessionOfHandshake+8 {
		w.presented = int64(binary.BigEndian.Uint64(p[sessionOfHandshake:]))
	}
	if w.handshaken && len(p) >= 12 {
		xid, op = int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	}
	// Recorded before it is sent: a reply must find it, and an instant that is too
	// early errs on the safe side.
	filled := w.zxids.fill(p, op, w.handshaken)
	sending := packet{xid: xid, op: op, watched: watchedPath(p, op)}
	if op == opSetWatches {
		sending.again = filled // a copy: the client writes its next packet where this one was
	}
	w.mu.Lock()
	sending.sent = time.Now()
	w.inFlight = append(w.inFlight, sending)
	if w.asked.IsZero() && sending.isRequest() {
		w.asked = sending.sent
	}
	w.mu.Unlock()
	_, err := w.Conn.Write(filled)
	if err != nil {
		w.mu.Lock()
		w.unwritten = err
		// The reader may meet the end of the connection only after Sever.
		w.hungUp = w.hungUp || !w.isClosed() && !errors.Is(err, os.ErrDeadlineExceeded)
		w.mu.Unlock()
		w.Sever()
	}
	return len(p), nil
}

// Read passes the server's bytes on, frame by frame.
func (w *Wire) Read(p []byte) (int, error) {
	if !w.handshaken {
		if err := w.shake(); err != nil {
			w.hooks.Failed(err)
			return 0, err
		}
		w.answer(0)
		w.handshaken = true
	}
	if w.left == 0 && len(w.unread) == 0 {
		w.passed() // the client reads on when it has decoded a frame
		if err := w.nextToPass(); err != nil {
			w.lost()
			return 0, err
		}
	}
	if len(w.unread) > 0 {
		n := copy(p, w.unread)
		w.unread = w.unread[n:]
		return n, nil
	}
	n, err := w.r.Read(p[:min(len(p), w.left)])
	w.left -= n
	if err != nil {
		w.passed() // without decoding it
		w.lost()
	}
	return n, err
}

// shake waits for the reply to the handshake, and for the login that follows it. The reply is then still to be read.
func (w *Wire) shake() error {
	h, err := w.greet()
	if w.isClosed() {
		err = fmt.Errorf("handshake: %w", net.ErrClosed) // by this process, whatever the error is
	}
	if err == nil {
		err = w.hooks.Greeted(h)
	}
	if err == nil {
		return w.login(h)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unwritten != nil {
		err = fmt.Errorf("handshake: %w", w.unwritten)
	}
	return err
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
	// The client would allocate as many bytes as the first four of any other
	// service happen to encode.
	if n < 36 || n > maxHelloLength {
		return Hello{}, fmt.Errorf("not a ZooKeeper server: its answer to the handshake begins with %q", head)
	}
	frame, err := w.r.Peek(4 + n)
	if err != nil {
		return Hello{}, explainHandshake(err)
	}
	w.left = 4 + n
	replaced := w.refuseOther(frame)
	return Hello{
		Replaced:  replaced,
		Timeout:   time.Duration(int32(binary.BigEndian.Uint32(frame[8:]))) * time.Millisecond,
		SessionID: int64(binary.BigEndian.Uint64(frame[sessionOfHello:])),
		Frame:     slices.Clone(frame),
	}, nil
}

// refuseOther turns the reply to a handshake into the reply for an expired session, if a server has opened another session than the
// one that the client presented, as ClickHouse Keeper does at each reconnection. The client would take it for its own, and run
// in it the requests of the one before, whose nodes go with that.
func (w *Wire) refuseOther(hello []byte) (replaced bool) {
	field := hello[sessionOfHello : sessionOfHello+8]
	id := int64(binary.BigEndian.Uint64(field))
	if w.presented == 0 || id == 0 || id == w.presented {
		return false
	}
	clear(field)
	return true
}

// nextFrame waits for the next frame and records which packet it answers.
func (w *Wire) nextFrame() error {
	w.watches.decoded()
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
	w.op = p.op
	switch {
	case xid == xidWatchEvent:
		return w.readEvent()
	case xid < 0 || w.left < codeOfReply+4:
		return nil // a ping: the client ignores its zxid
	}
	head, err = w.r.Peek(codeOfReply + 4)
	if err != nil {
		return err
	}
	w.zxids.hide(head)
	code := int32(binary.BigEndian.Uint32(head[codeOfReply:]))
	if limit := w.hooks.MaxReply; limit > 0 && w.left-4 > limit {
		return w.refuseLarge(head)
	}
	w.readWatches(p, code)
	if p.op == opClose && code == 0 {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
	}
	nameUnauthenticated(head)
	nameThrottled(head)
	return nil
}

// readWatches records what an answer with that code to the packet says about watches.
func (w *Wire) readWatches(p packet, code int32) {
	switch {
	case p.op != opSetWatches:
		w.watches.setting = p.answeredWith(code)
	case code == 0:
		w.watches.confirm(p.again)
	default:
		w.hooks.Unset()
	}
}

// answer records that the packet xid was answered: the oldest in flight, because a server
// answers the packets of one connection in the order in which they arrived.
func (w *Wire) answer(xid int32) (p packet, now time.Time) {
	now = time.Now()
	w.mu.Lock()
	i := slices.IndexFunc(w.inFlight, func(p packet) bool { return p.xid == xid })
	if i < 0 {
		w.mu.Unlock()
		return packet{}, now
	}
	p = w.inFlight[i]
	if i == 0 && len(w.inFlight) > 1 {
		w.inFlight = w.inFlight[1:]
	} else { // and the only one leaves its place to the next
		w.inFlight = slices.Delete(w.inFlight, i, i+1)
	}
	w.replied = now
	if p.isRequest() {
		w.asked = time.Time{}
		if slices.ContainsFunc(w.inFlight, packet.isRequest) {
			w.asked = now
		}
	}
	w.mu.Unlock()
	w.hooks.Answered(p.sent)
	return p, now
}

// isProof reads the reply to a write, and reports whether a quorum carried the write out, or
// refused it, for a session that it believes to be alive.
//
// A transaction that was refused is proof if its first failed operation met a missing node or
// another version: the leader checks the session before it checks the node. Other refusals
// prove less, or report that the session has ended.
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
			return false, nil // no operation, or none that was checked
		case int32(binary.BigEndian.Uint32(body)) != -1:
			return true, nil
		case len(body) < result+4:
			return false, nil
		}
		switch int32(binary.BigEndian.Uint32(body[result:])) {
		case 0, -2: // would have been carried out; was not checked
		case -101, -103: // no node, bad version
			return true, nil
		default:
			return false, nil
		}
	}
	return false, nil
}
