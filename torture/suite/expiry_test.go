// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/binary"
	"net"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A mortal knows the id of its client's session, and can end the session at any moment.
type mortal struct {
	env *env

	mu    sync.Mutex // guards reply
	reply []byte     // to the last connect request that was granted
}

// mortal makes the client's connections remember the id of its session.
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

// connectReply is the length of a connect reply up to the session's id: its own length (4 bytes),
// the protocol's version (4), timeout (4) and id (8).
const connectReply = 20

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

// expire ends the session. The client is notified when it reconnects.
func (m *mortal) expire() {
	m.env.t.Helper()
	m.mu.Lock()
	session := int64(binary.BigEndian.Uint64(m.reply[12:]))
	m.mu.Unlock()
	require.NoError(m.env.t, m.env.ensemble.Expire(m.env.ctx, session))
}
