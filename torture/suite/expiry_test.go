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

// A mortal knows the id and the password of its client's session, and so can have
// the servers end it at any moment.
type mortal struct {
	env *env

	mu    sync.Mutex // guards reply
	reply []byte     // to the last connect request that was granted
}

// mortal makes the client's connections remember what its session is known by.
// It sets opts.Dial.
func (s *env) mortal(opts *recipes.Options) *mortal {
	m := &mortal{env: s}
	opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &eavesdropper{Conn: conn, mortal: m}, nil
	}
	return m
}

// An eavesdropper reads the reply to the connect request along.
type eavesdropper struct {
	net.Conn
	mortal      *mortal
	waitForLine []byte // the first bytes that were read
}

// connectReply is the length of a connect reply: its own length (4 bytes), the
// protocol's version (4), timeout (4), id (8) and password (4 + 16).
const connectReply = 40

func (e *eavesdropper) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if missing := connectReply - len(e.waitForLine); missing > 0 {
		e.waitForLine = append(e.waitForLine, p[:min(n, missing)]...)
		// A session that has expired has the id 0.
		if len(e.waitForLine) == connectReply && binary.BigEndian.Uint64(e.waitForLine[12:]) != 0 {
			e.mortal.mu.Lock()
			e.mortal.reply = e.waitForLine
			e.mortal.mu.Unlock()
		}
	}
	return n, err
}

// expire makes a server end the session: another connection with its password takes
// it over and closes it. The client is notified when it reconnects.
func (m *mortal) expire() {
	m.env.t.Helper()
	m.mu.Lock()
	reply := m.reply
	m.mu.Unlock()
	// The client takes its session back as soon as it is taken, and may be first.
	m.env.eventually("the end of the session", func() bool {
		over, err := m.takeAndClose(reply)
		return over && err == nil
	})
}

// takeAndClose says whether the session is over. Its error is that of a
// connection which the client's has ousted.
func (m *mortal) takeAndClose(reply []byte) (over bool, err error) {
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
		return true, nil // an earlier attempt has closed it
	}
	_, err = send([]byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}) // close
	return err == nil, err
}
