// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// session is a session at one server, without a ZooKeeper client.
type session struct {
	net.Conn
}

// dialSession creates a session with a timeout of ten seconds. It retries, because a server may
// leave its first connections unanswered.
func dialSession(tb testing.TB, addr string) *session {
	tb.Helper()
	hello := make([]byte, 44)
	binary.BigEndian.PutUint32(hello[12:], 60_000) // timeout: a fault can take ten seconds on a busy machine
	binary.BigEndian.PutUint32(hello[24:], 16)     // length of the password
	var err error
	// A server that has lost its leader for a moment closes new connections.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", addr, time.Second); err != nil {
			continue
		}
		tb.Cleanup(func() { _ = conn.Close() })
		s := &session{conn}
		var answer []byte
		if answer, err = s.ask(tb, hello, 2*time.Second); err == nil {
			require.Positive(tb, binary.BigEndian.Uint32(answer[4:]), "negotiated timeout")
			return s
		}
	}
	require.NoError(tb, err)
	return nil
}

// answerTime is how long a client waits for an answer that must come: a busy disk delays it by seconds.
const answerTime = 20 * time.Second

// ask sends a frame and waits for the next one.
func (s *session) ask(tb testing.TB, frame []byte, wait time.Duration) ([]byte, error) {
	tb.Helper()
	require.NoError(tb, s.SetDeadline(time.Now().Add(wait)))
	if _, err := s.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(s, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(s, answer)
	return answer, err
}

func (s *session) ping(tb testing.TB) error {
	tb.Helper()
	return s.pingFor(tb, answerTime)
}

// pingFor pings, and waits so long for the answer.
func (s *session) pingFor(tb testing.TB, wait time.Duration) error {
	tb.Helper()
	_, err := s.ask(tb, []byte{0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}, wait)
	return err
}
