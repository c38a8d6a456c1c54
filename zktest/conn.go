// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

// Bounds of what one connection can make the server keep, in bytes.
const (
	maxInbound  = 4 << 20  // frames that wait to be looked at: then nothing more is read
	maxWaiting  = 4 << 20  // requests that wait for the leader: then no more are looked at
	maxReplies  = 4 << 20  // replies that wait to be sent: the same
	maxOutbound = 32 << 20 // replies and events, which do not wait: then the connection ends
)

// A conn is one client's connection to one server.
//
// Its reader takes frames from the network whatever happens, as an operating system
// would; what is silent or slow about it are the queues between the reader, the
// goroutine that carries requests out, and the writer.
type conn struct {
	server *Server
	number int64 // in the order in which they came
	link   *Link // the client's own way, nil if it has none
	net    net.Conn
	remote string // the client's address
	in     *queue[inbound]
	out    *queue[[]byte] // nil: the end
	slow   atomic.Int64   // nanoseconds that a frame takes longer, in either direction
	// touched is when bytes came last, in nanoseconds after the ensemble began.
	touched atomic.Int64

	// Guarded by the ensemble's mu.
	session *session        // nil before the handshake
	greeted bool            // the first frame has come
	modern  bool            // the client knows of read-only servers
	mute    bool            // nothing is carried out
	lost    bool            // nothing is sent any more
	over    bool            // it has ended, or is about to
	who     []tree.Identity // as whom its requests are carried out
	waiting []*request      // that were not answered yet, in order
	kept    int             // bytes of the frames that those came in
	eased   *sync.Cond      // of the ensemble's mu: signalled when kept has shrunk, or it is over
	counts  traffic
}

// traffic is what four-letter words tell of a connection.
type traffic struct{ received, sent int64 }

// inbound is what a reader has found: a frame, a four-letter word or the end.
type inbound struct {
	frame []byte
	bad   error // what is wrong with the frame
	word  string
	end   error
}

// serve runs the connection until it has ended.
func (c *conn) serve() {
	e := c.server.ensemble
	var both sync.WaitGroup
	both.Go(c.read)
	both.Go(c.write)
	for {
		item, ok := c.in.take()
		if !ok || !c.out.room(maxReplies) || !e.ease(c) {
			break
		}
		var r *request
		if item.frame != nil {
			r, item.bad = c.parse(item.frame)
		}
		e.receive(c, item, r, c.treat(r))
	}
	both.Wait()
	e.forget(c)
}

// ease waits until not too many requests of the connection wait. ok is false once it
// is over.
func (e *Ensemble) ease(c *conn) (ok bool) {
	e.mu.Lock()
	defer e.unlock()
	for c.kept > maxWaiting && !c.over {
		c.eased.Wait()
	}
	return true
}

func (c *conn) delay() time.Duration { return time.Duration(c.slow.Load()) }

// read puts what the client sends into the queue.
func (c *conn) read() {
	r := bufio.NewReaderSize(touching{c}, 4096)
	for first := true; ; first = false {
		item := c.next(r, first)
		c.in.put(item, len(item.frame), c.delay())
		if item.frame == nil {
			// Read on, for the client's end must not block on what nobody takes.
			_, err := io.Copy(io.Discard, r)
			c.in.put(inbound{end: fmt.Errorf("closed after what could not be read: %w", errors.Join(err, io.EOF))}, 0, c.delay())
			return
		}
		if !c.in.room(maxInbound) {
			return
		}
	}
}

// touching reads a connection, and notes when something came.
type touching struct{ c *conn }

func (t touching) Read(p []byte) (int, error) {
	n, err := t.c.net.Read(p)
	if n > 0 && !t.c.in.isHeld() {
		t.c.touch()
	}
	return n, err
}

func (c *conn) touch() { c.touched.Store(int64(time.Since(c.server.ensemble.began))) }

// next reads one frame.
func (c *conn) next(r *bufio.Reader, first bool) inbound {
	head, err := r.Peek(4)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = fmt.Errorf("connection ends %d bytes into a packet's length: %w", len(head), io.ErrUnexpectedEOF)
		}
		return inbound{end: err}
	}
	if _, known := words[string(head)]; known && first {
		return inbound{word: string(head)}
	}
	if _, err := r.Discard(len(head)); err != nil {
		return inbound{end: err}
	}
	size := int(int32(binary.BigEndian.Uint32(head))) //nolint:gosec // signed on the wire
	if limit := c.server.ensemble.opts.MaxPacket; size < 0 || size > limit {
		return inbound{end: fmt.Errorf("packet of length %d: must be 0 to %d", size, limit)}
	}
	frame, err := readFull(r, size)
	if err != nil {
		return inbound{end: fmt.Errorf("packet of length %d ends after %d bytes: %w", size, len(frame), err)}
	}
	return inbound{frame: frame}
}

// readFull reads size bytes, and takes memory for them as they come.
func readFull(r io.Reader, size int) ([]byte, error) {
	const step = 16 << 10
	frame := make([]byte, 0, min(size, step))
	for len(frame) < size {
		n := min(size-len(frame), step)
		frame = slices.Grow(frame, n)
		got, err := io.ReadFull(r, frame[len(frame):len(frame)+n])
		frame = frame[:len(frame)+got]
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return frame, err
		}
	}
	return frame, nil
}

// write sends what is in the queue, until the end.
func (c *conn) write() {
	broken := false
	for {
		frame, ok := c.out.take()
		if !ok || frame == nil {
			break
		}
		if broken {
			continue
		}
		if _, err := c.net.Write(frame); err != nil {
			broken = true
			c.in.put(inbound{end: err}, 0, c.delay())
		}
	}
	// What it says is that the client was faster.
	_ = c.net.Close()
	c.in.close()
	c.out.close()
}

// took counts what the client has sent. The caller holds the ensemble's mu.
func (c *conn) took() {
	c.counts.received++
	c.server.total.received++
}

// send has the writer send a frame. The caller holds the ensemble's mu.
func (c *conn) send(frame []byte) { c.sendBy(nil, frame) }

// sendBy is send for a reply or an event that rules can apply to.
func (c *conn) sendBy(t *treatment, frame []byte) {
	if c.lost || c.over {
		return
	}
	if c.out.load() > maxOutbound {
		c.server.ensemble.abort(c, fmt.Errorf("client does not take %d bytes of replies and events", maxOutbound))
		return
	}
	c.counts.sent++
	c.server.total.sent++
	if t == nil {
		c.out.put(frame, len(frame), c.delay())
		return
	}
	t.sent(c, len(frame))
	c.out.putBehind(t.reply, frame, len(frame), c.delay()+t.delay)
}

// finish is the server's hanging up: the client hears of it behind what was sent
// before, and not while that way is held. why is logged unless it is nil. The caller
// holds the ensemble's mu.
func (c *conn) finish(why error) {
	if c.end(why) {
		c.out.put(nil, 0, c.delay())
	}
}

// abort ends a connection at once and on both sides, with whatever is in its queues.
// The caller holds mu; the network hears of it when that is released.
func (e *Ensemble) abort(c *conn, why error) {
	c.end(why)
	e.doomed = append(e.doomed, c)
}

// end has the server know nothing of the connection any more. It says whether it did.
func (c *conn) end(why error) bool {
	if c.over {
		return false
	}
	c.over = true
	c.server.drop(c)
	c.eased.Broadcast()
	if why != nil {
		c.server.ensemble.say("connection closed", "server", c.server.addr, "client", c.remote, "reason", why)
	}
	return true
}

// say has something logged once mu is released: a logger may do what it likes.
func (e *Ensemble) say(what string, args ...any) {
	e.said = append(e.said, func() { e.opts.Logger.Info(what, args...) })
}

// receive carries out what a connection's reader has found.
// r is the request in its frame, if there is one, and t what rules do with it.
func (e *Ensemble) receive(c *conn, item inbound, r *request, t *treatment) {
	e.mu.Lock()
	defer e.unlock()
	switch {
	case c.over:
		if item.end != nil {
			e.abort(c, nil) // both sides have closed it
		}
		return
	case item.end != nil:
		why := item.end
		if errors.Is(why, io.EOF) || errors.Is(why, net.ErrClosed) || errors.Is(why, io.ErrClosedPipe) {
			why = nil // as clients do
		}
		e.abort(c, why)
		return
	case c.mute:
		return
	case item.word != "":
		c.took()
		c.send([]byte(words[item.word](c.server)))
		c.finish(nil)
		return
	}
	snared := e.traps.step()
	if c.link != nil {
		snared = max(snared, c.link.traps.step())
	}
	switch snared {
	case cutBefore:
		c.finish(errors.New("trap: cut before this frame"))
		return
	case cutAfter:
		c.lost = true
		defer c.finish(errors.New("trap: cut after this frame"))
	}
	switch {
	case t == nil:
	case t.lose == ToServer:
		c.finish(errors.New("rule: lost this request"))
		return
	case t.lose == ToClient:
		c.lost = true
		defer c.finish(errors.New("rule: lost the reply to this request"))
	}
	c.took()
	if err := c.handle(item, r, t); err != nil {
		c.finish(err)
	}
}

// unlock releases mu, and then does what must not be done under it: it ends the
// connections that were doomed, and wakes those who wait for a change.
func (e *Ensemble) unlock() {
	doomed, stirred, said := e.doomed, e.stirred, e.said
	e.doomed, e.stirred, e.said = nil, nil, nil
	e.mu.Unlock()
	for _, say := range said {
		say()
	}
	for _, c := range doomed {
		c.kill()
	}
	for _, changed := range stirred {
		close(changed)
	}
}

// kill ends the connection's goroutines.
func (c *conn) kill() {
	c.in.close()
	c.out.close()
	// What it says is that the client was faster.
	_ = c.net.Close()
}
