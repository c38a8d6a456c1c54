// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

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

// connectReply is the length of a connect reply up to the session's id: its own length (4 bytes),
// the protocol's version (4), timeout (4) and id (8).
const connectReply = 20

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

// expire ends the session. The client is notified when it reconnects.
func (m *sessionEnder) expire() {
	m.env.T.Helper()
	m.mu.Lock()
	session := int64(binary.BigEndian.Uint64(m.reply[12:]))
	m.mu.Unlock()
	require.NoError(m.env.T, m.env.ensemble.Expire(m.env.Ctx, session))
}

// expires waits until the ensemble has ended the session.
func (s *env) expires(session int64) {
	s.T.Helper()
	leader := s.leader() // only the leader lists all sessions
	s.Eventually(fmt.Sprintf("the end of session 0x%x", session), func() bool {
		dump, err := leader.FourLetter(s.Ctx, "dump")
		require.NoError(s.T, err)
		return !strings.Contains(dump, fmt.Sprintf("0x%x\n", session))
	})
}
