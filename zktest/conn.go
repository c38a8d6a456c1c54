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
	"time"
)

// Bounds of the memory that one connection can make the server use, in bytes.
const (
	maxInbound  = 4 << 20  // unparsed frames: at the bound, reading stops
	maxWaiting  = 4 << 20  // requests that wait for the leader: at the bound, parsing stops
	maxReplies  = 4 << 20  // unsent replies: at the bound, parsing stops
	maxOutbound = 32 << 20 // unsent replies and events, which do not wait: beyond it, the connection ends
)

// serve runs the connection until it has ended.
func (c *conn) serve() {
	e := c.server.ensemble
	var both sync.WaitGroup
	both.Go(c.read)
	both.Go(c.write)
	for {
		item, ok := c.in.take()
		if !ok || !c.out.waitForRoom(maxReplies) {
			break
		}
		e.waitForRoom(c)
		var r *request
		if item.frame != nil {
			r, item.bad = c.parse(item.frame)
		}
		e.receive(c, item, r, c.applyRules(r))
	}
	both.Wait()
	e.forget(c)
}

// waitForRoom waits until the waiting requests of the connection are within their bound,
// or the connection has ended.
func (e *Ensemble) waitForRoom(c *conn) {
	e.mu.Lock()
	defer e.unlock()
	for c.waitingBytes > maxWaiting && !c.ended {
		c.progress.Wait()
	}
}

func (c *conn) delay() time.Duration { return time.Duration(c.slow.Load()) }

// read puts the frames that the client sends into the queue.
func (c *conn) read() {
	r := bufio.NewReaderSize(touching{c}, 4096)
	for first := true; ; first = false {
		item := c.next(r, first)
		if first {
			item = c.certified(item)
		}
		c.in.put(item, len(item.frame), c.delay())
		if item.frame == nil {
			// Continue to read, so that the client's writes do not block.
			_, err := io.Copy(io.Discard, r)
			c.in.put(inbound{end: fmt.Errorf("read connection: closed after an unreadable frame: %w", errors.Join(err, io.EOF))}, 0, c.delay())
			return
		}
		if !c.in.waitForRoom(maxInbound) {
			return
		}
	}
}

// touching reads a connection, and records the time at which bytes arrive.
type touching struct{ c *conn }

func (t touching) Read(p []byte) (int, error) {
	n, err := t.c.net.Read(p)
	if n > 0 && !t.c.in.isHeld() {
		t.c.touch()
	}
	return n, err
}

func (c *conn) touch() { c.touched.Store(int64(time.Since(c.server.ensemble.began))) }

// next reads one item: a frame, or as the first one also a four-letter word.
func (c *conn) next(r *bufio.Reader, first bool) inbound {
	head, err := r.Peek(4)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = fmt.Errorf("read packet: connection ends after %d bytes of its length: %w", len(head), io.ErrUnexpectedEOF)
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
		return inbound{end: fmt.Errorf("read packet: length %d: must be 0 to %d", size, limit)}
	}
	frame, err := readFull(r, size)
	if err != nil {
		return inbound{end: fmt.Errorf("read packet: connection ends after %d of %d bytes: %w", len(frame), size, err)}
	}
	return inbound{frame: frame}
}

// readFull reads size bytes, and allocates memory for them as they arrive.
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

// write sends the frames in the queue, until the end.
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
	// Its error only says that the client closed first.
	_ = c.net.Close()
	c.in.close()
	c.out.close()
}

// countReceived counts a frame from the client. The caller holds the ensemble's mu.
func (c *conn) countReceived() {
	c.counts.received++
	c.server.total.received++
}

// send queues a frame for the writer. The caller holds the ensemble's mu.
func (c *conn) send(frame []byte) { c.sendBy(nil, frame) }

// sendBy is send for a reply or an event with the effects of rules, nil for none.
func (c *conn) sendBy(eff *effects, frame []byte) {
	if c.lost || c.ended {
		return
	}
	if c.out.load() > maxOutbound {
		c.server.ensemble.abort(c, fmt.Errorf("send: client has not read %d bytes of replies and events", maxOutbound))
		return
	}
	c.counts.sent++
	c.server.total.sent++
	if eff == nil {
		c.out.put(frame, len(frame), c.delay())
		return
	}
	eff.sent(c, len(frame))
	c.out.putBehind(eff.replyGates, frame, len(frame), c.delay()+eff.delay)
}

// finish closes the connection from the server's side: the client sees the end after the
// frames sent before, and not while that direction is held. why is logged unless it is
// nil. The caller holds the ensemble's mu.
func (c *conn) finish(why error) {
	if c.end(why) {
		c.out.put(nil, 0, c.delay())
	}
}

// abort ends a connection immediately and on both sides, and drops its queues. The caller
// holds mu; the network connection is closed when mu is released.
func (e *Ensemble) abort(c *conn, why error) {
	c.end(why)
	e.toKill = append(e.toKill, c)
}

// end makes the server drop the connection, and reports whether it had not before.
func (c *conn) end(why error) bool {
	if c.ended {
		return false
	}
	c.ended = true
	c.server.drop(c)
	c.progress.Broadcast()
	if why != nil {
		c.server.ensemble.logLater("connection closed", "server", c.server.addr, "client", c.remote, "reason", why)
	}
	return true
}

// logLater logs a message once mu is released, because a logger may call the ensemble.
func (e *Ensemble) logLater(msg string, args ...any) {
	e.toLog = append(e.toLog, func() { e.opts.Logger.Info(msg, args...) })
}

// receive carries out an item that a connection's reader has read. r is the request in
// its frame, if there is one, and eff the effects of the rules that apply to it.
func (e *Ensemble) receive(c *conn, item inbound, r *request, eff *effects) {
	e.mu.Lock()
	defer e.unlock()
	switch {
	case c.ended:
		if item.end != nil {
			e.abort(c, nil) // both sides have closed it
		}
		return
	case item.end != nil:
		why := item.end
		if errors.Is(why, io.EOF) || errors.Is(why, net.ErrClosed) || errors.Is(why, io.ErrClosedPipe) {
			why = nil // clients end their connections so
		}
		e.abort(c, why)
		return
	case c.unanswered:
		return
	case item.word != "":
		c.countReceived()
		c.send([]byte(words[item.word](c.server)))
		c.finish(nil)
		return
	}
	loss := e.traps.step()
	if c.link != nil {
		loss = max(loss, c.link.traps.step())
	}
	switch loss {
	case lostRequest:
		c.finish(errors.New("trap: this frame is lost"))
		return
	case lostReply:
		c.lost = true
		defer c.finish(errors.New("trap: the reply to this frame is lost"))
	}
	switch {
	case eff == nil:
	case eff.lose == ToServer:
		c.finish(errors.New("rule: lost this request"))
		return
	case eff.lose == ToClient:
		c.lost = true
		defer c.finish(errors.New("rule: lost the reply to this request"))
	}
	c.countReceived()
	if err := c.handle(item, r, eff); err != nil {
		c.finish(err)
	}
}

// unlock releases mu, and then does the work that must not be done under it: it logs,
// kills the aborted connections, and wakes the dials that wait for a change.
func (e *Ensemble) unlock() {
	toKill, toWake, toLog := e.toKill, e.toWake, e.toLog
	e.toKill, e.toWake, e.toLog = nil, nil, nil
	e.mu.Unlock()
	for _, log := range toLog {
		log()
	}
	for _, c := range toKill {
		c.kill()
	}
	for _, changed := range toWake {
		close(changed)
	}
}

// kill ends the connection's goroutines.
func (c *conn) kill() {
	c.in.close()
	c.out.close()
	// Its error only says that the client closed first. TLS would first send a notification, and wait.
	_ = c.socket.Close()
}
