// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net"
	"time"
)

// Sever ends the connection. It does not wait for the close, which can block on a tunnel or
// on a socket that lingers. Under TLS, Close would first send a close notification.
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
			// The deadline ends a Read or Write that Close does not. Errors mean that
			// the connection has already ended.
			_ = conn.SetDeadline(longAgo)
			_ = conn.Close()
		})
	})
}

// lost records that the connection has ended, and whether this process ended it.
func (w *Wire) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hungUp = w.hungUp || !w.isClosed()
}

// HungUp reports whether the server, or the network, ended the connection after its handshake. The client's requests on it fail
// afterwards.
func (w *Wire) HungUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hungUp
}

// SessionEnded reports whether the server has ended the session, as the client asked it to.
func (w *Wire) SessionEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// SetReadDeadline keeps the client from extending the handshake, or a Read of a
// connection that was closed.
func (w *Wire) SetReadDeadline(t time.Time) error { return w.setDeadline(w.Conn.SetReadDeadline, t) }

// SetWriteDeadline keeps the client from extending the handshake, or a Write to a
// connection that was closed.
func (w *Wire) SetWriteDeadline(t time.Time) error { return w.setDeadline(w.Conn.SetWriteDeadline, t) }

func (w *Wire) setDeadline(set func(time.Time) error, t time.Time) error {
	err := set(w.bound(t))
	// Checked afterwards: the later of this and end determines the deadline.
	if w.isClosed() {
		return set(longAgo)
	}
	return err
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// bound returns the deadline t, but no later than greetBy during the handshake. The goroutine
// of the handshake calls it, and those that the client starts afterwards.
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
