// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// frameServer answers every frame with the same frame, and counts them.
type frameServer struct {
	net.Listener
	served atomic.Int64 // frames answered
	conns  atomic.Int64 // connections accepted
	closed atomic.Int64 // of these, ended

	mu   sync.Mutex // guards open
	open []net.Conn
}

// end closes the server's side of every connection.
func (s *frameServer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.open {
		_ = conn.Close() // some have ended already
	}
}

func newFrameServer(t *testing.T) *frameServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &frameServer{Listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.mu.Lock()
			s.open = append(s.open, conn)
			s.mu.Unlock()
			running.Go(func() {
				defer s.closed.Add(1)
				defer func() { _ = conn.Close() }() // end may have closed it
				for {
					frame, err := readFrame(conn)
					if err != nil {
						return
					}
					s.served.Add(1)
					if writeFrame(conn, frame) != nil {
						return
					}
				}
			})
		}
	})
	// Runs after the proxy's cleanup, which ends the connections.
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		running.Wait()
	})
	return s
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func newProxy(t *testing.T) (*Proxy, *frameServer) {
	t.Helper()
	s := newFrameServer(t)
	p, err := NewProxy(s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, s
}

type frameClient struct {
	t *testing.T
	net.Conn
}

func dialProxy(t *testing.T, p *Proxy) *frameClient {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &frameClient{t, conn}
}

// request is a frame as a client sends them: xid, opcode, and what follows.
func request(xid, op int32, rest string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	return append(b, rest...)
}

func (c *frameClient) echo(frame []byte) {
	c.t.Helper()
	require.NoError(c.t, writeFrame(c, frame))
	answer, err := readFrame(c)
	require.NoError(c.t, err)
	require.Equal(c.t, frame, answer)
}

// silent asserts that nothing arrives for a while, the end included.
func (c *frameClient) silent() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	n, err := c.Read(make([]byte, 1))
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded, "%d bytes arrived", n)
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(time.Minute)))
}

func (c *frameClient) isReset() {
	c.t.Helper()
	_, err := io.Copy(io.Discard, c)
	require.ErrorIs(c.t, err, syscall.ECONNRESET)
}

// refused asserts that a new connection is reset, which may be seen by the dial or
// after it.
func refused(t *testing.T, p *Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer func() { _ = conn.Close() }() // it is broken
		_, err = io.Copy(io.Discard, conn)
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, time.Millisecond, what)
}
