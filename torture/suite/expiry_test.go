// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A sessionEnder knows the id and the password of a client's session, so that it can make the servers end the session.
type sessionEnder struct {
	env *env

	mu    sync.Mutex // guards reply
	reply []byte     // to the last connect request that was granted
}

// sessionEnder returns a sessionEnder for the client that is connected with opts. It sets opts.Dial.
func (s *env) sessionEnder(opts *recipes.Options) *sessionEnder {
	m := &sessionEnder{env: s}
	opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &replyReader{Conn: conn, ender: m}, nil
	}
	return m
}

// A replyReader is a connection that records the reply to its connect request.
type replyReader struct {
	net.Conn
	ender *sessionEnder
	first []byte // the first bytes that were read
}

// connectReply is the length of a connect reply: its own length (4 bytes), the
// protocol's version (4), timeout (4), id (8) and password (4 + 16).
const connectReply = 40

func (e *replyReader) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if missing := connectReply - len(e.first); missing > 0 {
		e.first = append(e.first, p[:min(n, missing)]...)
		// A session that has expired has the id 0.
		if len(e.first) == connectReply && binary.BigEndian.Uint64(e.first[12:]) != 0 {
			e.ender.mu.Lock()
			e.ender.reply = e.first
			e.ender.mu.Unlock()
		}
	}
	return n, err
}

// expire makes a server end the session: it attaches to the session from another connection and closes it. The client is
// notified when it reconnects.
func (m *sessionEnder) expire() {
	m.env.t.Helper()
	m.mu.Lock()
	reply := m.reply
	m.mu.Unlock()
	// The client attaches to its session again immediately, and may be faster than the close.
	m.env.eventually("the end of the session", func() bool {
		over, err := m.attachAndClose(reply)
		return over && err == nil
	})
}

// attachAndClose attaches to the session and closes it. It reports whether the session has ended. It returns an error if the
// client has attached to the session again first.
func (m *sessionEnder) attachAndClose(reply []byte) (over bool, err error) {
	conn, err := new(net.Dialer).DialContext(m.env.ctx, "tcp", m.env.ensemble.Addrs()[0])
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	deadline, _ := m.env.ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return false, err
	}
	send := func(frame []byte) ([]byte, error) {
		_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
		if err != nil {
			return nil, err
		}
		var size [4]byte
		if _, err = io.ReadFull(conn, size[:]); err != nil {
			return nil, err
		}
		answer := make([]byte, binary.BigEndian.Uint32(size[:]))
		_, err = io.ReadFull(conn, answer)
		return answer, err
	}
	request := make([]byte, 44)
	copy(request[12:16], reply[8:12])  // timeout
	copy(request[16:24], reply[12:20]) // id
	copy(request[24:44], reply[20:40]) // password
	answer, err := send(request)
	if err != nil {
		return false, err
	}
	if binary.BigEndian.Uint64(answer[8:]) == 0 {
		return true, nil // an earlier attempt has closed the session
	}
	_, err = send([]byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}) // close
	return err == nil, err
}
