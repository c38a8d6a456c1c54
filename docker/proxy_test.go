// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
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
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
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
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
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
	require.Eventually(t, ok, 10*time.Second, time.Millisecond, what)
}

func TestProxyPassesBytesOn(t *testing.T) {
	p, s := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte{})
	c.echo([]byte("x"))
	c.echo(bytes.Repeat([]byte("long"), 1<<20))
	require.Equal(t, 1, p.Connections())
	require.NoError(t, c.Close())
	eventually(t, "the server is notified of the end", func() bool { return s.closed.Load() == 1 })
	eventually(t, "the proxy forgets it", func() bool { return p.Connections() == 0 })
	require.Equal(t, 1, p.Accepted())
}

func TestProxyResetsAClientWhoseServerIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p, err := NewProxy(l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	refused(t, p)
}

func TestSwallowedRequestsNeverReachTheServer(t *testing.T) {
	p, s := newProxy(t)
	old := dialProxy(t, p)
	old.echo([]byte("one"))
	p.Drop(ToServer)
	fresh := dialProxy(t, p)
	for _, c := range []*frameClient{old, fresh} {
		require.NoError(t, writeFrame(c, []byte("two")))
		c.silent()
	}
	require.EqualValues(t, 1, s.served.Load())
	require.Equal(t, 2, p.Connections())

	p.Heal()
	old.isReset()
	fresh.isReset()
	dialProxy(t, p).echo([]byte("three"))
}

func TestSwallowedAnswersBelongToRequestsThatTookEffect(t *testing.T) {
	p, s := newProxy(t)
	c := dialProxy(t, p)
	p.Drop(ToClient)
	require.NoError(t, writeFrame(c, []byte("one")))
	eventually(t, "the request arrives", func() bool { return s.served.Load() == 1 })
	c.silent()
}

func TestConnectionWithoutLossOutlivesTheFault(t *testing.T) {
	p, _ := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("one"))
	p.Drop(Both)
	p.Heal()
	c.echo([]byte("two"))
}

func TestEndOfAConnectionIsSwallowedToo(t *testing.T) {
	p, s := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("one"))
	p.Drop(ToServer)
	require.NoError(t, c.Close())
	eventually(t, "the client is gone", func() bool { return p.Connections() == 0 })
	require.Zero(t, s.closed.Load())
	p.Heal()
	eventually(t, "the server is notified", func() bool { return s.closed.Load() == 1 })

	c = dialProxy(t, p)
	c.echo([]byte("one"))
	p.Drop(ToClient)
	s.end()
	c.silent()
}

func TestDelayLetsEverythingArriveLaterAndInOrder(t *testing.T) {
	p, _ := newProxy(t)
	c := dialProxy(t, p)
	const by = 100 * time.Millisecond
	p.Delay(Both, by)
	begin := time.Now()
	for i := range 100 { // all under way at the same time: delayed, not slow
		require.NoError(t, writeFrame(c, request(int32(i), 0, "")))
	}
	for i := range 100 {
		answer, err := readFrame(c)
		require.NoError(t, err)
		require.Equal(t, request(int32(i), 0, ""), answer)
	}
	require.GreaterOrEqual(t, time.Since(begin), 2*by)
	require.Less(t, time.Since(begin), 20*by)
	p.Delay(Both, 0)
	c.echo([]byte("x"))
}

func TestResetBreaksConnectionsAndWelcomesNewOnes(t *testing.T) {
	p, s := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("one"))
	p.Reset()
	c.isReset()
	eventually(t, "the server is notified", func() bool { return s.closed.Load() == 1 })
	dialProxy(t, p).echo([]byte("two"))
}

func TestMuteAcceptsAndNeverAnswers(t *testing.T) {
	p, s := newProxy(t)
	old := dialProxy(t, p)
	old.echo([]byte("one"))
	p.Hang()
	fresh := dialProxy(t, p)
	for _, c := range []*frameClient{old, fresh} {
		require.NoError(t, writeFrame(c, []byte("two")))
		c.silent()
	}
	require.EqualValues(t, 1, s.conns.Load())
	require.EqualValues(t, 1, s.served.Load())
	require.Equal(t, 2, p.Accepted())
	p.Heal()
	old.isReset()
	fresh.isReset()
	dialProxy(t, p).echo([]byte("three"))
}

func TestRefuseEndsConnectionsImmediately(t *testing.T) {
	p, s := newProxy(t)
	old := dialProxy(t, p)
	old.echo([]byte("one"))
	p.Refuse()
	old.isReset()
	refused(t, p)
	require.EqualValues(t, 1, s.conns.Load())
	require.Equal(t, 2, p.Accepted())
	p.Heal()
	dialProxy(t, p).echo([]byte("two"))
}

func TestLoseAnswerLosesThatAnswerOnly(t *testing.T) {
	p, s := newProxy(t)
	bystander := dialProxy(t, p)
	bystander.echo([]byte("hello"))
	c := dialProxy(t, p)
	c.echo([]byte("hello"))

	const create = 1
	happened := p.LoseReply(func(frame []byte) bool {
		return len(frame) >= 8 && binary.BigEndian.Uint32(frame[4:]) == create
	})
	// In one write, so that answers arrive together: those before it pass.
	var b bytes.Buffer
	for _, frame := range [][]byte{request(1, 3, "a"), request(2, create, "b"), request(3, 3, "c")} {
		require.NoError(t, writeFrame(&b, frame))
	}
	_, err := c.Write(b.Bytes())
	require.NoError(t, err)
	<-happened
	eventually(t, "the server has done it", func() bool { return s.served.Load() >= 4 })
	// What was delivered before a reset may be lost with it, but never more arrives.
	if answer, err := readFrame(c); err == nil {
		require.Equal(t, request(1, 3, "a"), answer)
		_, err = readFrame(c)
		require.ErrorIs(t, err, syscall.ECONNRESET)
	} else {
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	bystander.echo(request(9, create, "once only"))
	dialProxy(t, p).echo([]byte("hello"))
}

func TestLoseAnswerSparesTheAnswersBeforeIt(t *testing.T) {
	p, _ := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("hello"))
	happened := p.LoseReply(func(frame []byte) bool { return string(frame[8:]) == "lose" })
	for xid := range int32(50) {
		c.echo(request(xid, 1, "keep"))
	}
	require.NoError(t, writeFrame(c, request(50, 1, "lose")))
	<-happened
	c.isReset()
}

func TestLoseAnswerCanLoseTheHandshake(t *testing.T) {
	p, s := newProxy(t)
	happened := p.LoseReply(func([]byte) bool { return true })
	c := dialProxy(t, p)
	require.NoError(t, writeFrame(c, []byte("hello")))
	<-happened
	c.isReset()
	require.EqualValues(t, 1, s.served.Load())
}

func TestPassCancelsAPendingLoss(t *testing.T) {
	p, _ := newProxy(t)
	happened := p.LoseReply(func([]byte) bool { return true })
	p.Heal()
	dialProxy(t, p).echo([]byte("hello"))
	select {
	case <-happened:
		require.Fail(t, "an answer was lost")
	default:
	}
}

func TestClosedProxyIsGone(t *testing.T) {
	p, _ := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("one"))
	require.NoError(t, p.Close())
	c.isReset()
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, p.Close())
	require.Zero(t, p.Connections())
}

func TestFaultsComeAndGoUnderLoad(t *testing.T) {
	p, _ := newProxy(t)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var echoes atomic.Int64
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := net.Dial("tcp", p.Addr())
				if err != nil { // refused
					continue
				}
				frame := bytes.Repeat([]byte("f"), 1000)
				for i := range 1000 {
					frame = request(int32(i), 1, string(frame[8:]))
					// A gap must end the connection, never be read as something else.
					_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
					if writeFrame(conn, frame) != nil {
						break
					}
					answer, err := readFrame(conn)
					if err != nil {
						break
					}
					if !bytes.Equal(frame, answer) {
						t.Errorf("sent %q, got %q", frame[:8], answer[:min(8, len(answer))])
					}
					echoes.Add(1)
				}
				_ = conn.Close()
			}
		})
	}
	faults := []func(){
		func() { p.Drop(ToServer) }, func() { p.Drop(ToClient) }, func() { p.Drop(Both) }, p.Hang, p.Refuse, p.Reset,
		func() { p.LoseReply(func([]byte) bool { return true }) }, func() { p.Delay(Both, time.Millisecond) },
	}
	for range 20 {
		for _, fault := range faults {
			before := echoes.Load()
			fault()
			p.Heal()
			eventually(t, "passes again", func() bool { return echoes.Load() > before+10 })
		}
	}
	close(stop)
	clients.Wait()
	eventually(t, "no connection stays", func() bool { return p.Connections() == 0 })
}

func TestFramerFollowsFramesAcrossReads(t *testing.T) {
	var stream bytes.Buffer
	var want []string
	for _, s := range []string{"", "a", "hello", string(make([]byte, 70000)), ""} {
		require.NoError(t, writeFrame(&stream, []byte(s)))
		want = append(want, s)
	}
	for _, size := range []int{1, 2, 3, 7, 4096, stream.Len()} {
		var f framer
		var got []string
		for rest := stream.Bytes(); len(rest) > 0; {
			part := rest[:min(size, len(rest))]
			rest = rest[len(part):]
			for len(part) > 0 {
				frame, n := f.next(part)
				require.Positive(t, n)
				part = part[n:]
				if frame != nil {
					got = append(got, string(frame))
				}
			}
		}
		require.Equal(t, want, got, "in pieces of %d", size)
		require.Equal(t, len(want), f.seen)
	}
}

func TestFramerPassesInvalidFramesUnchanged(t *testing.T) {
	var f framer
	frame, n := f.next([]byte("srvr"))
	require.Nil(t, frame)
	require.Equal(t, 4, n)
	frame, n = f.next([]byte("Zookeeper version"))
	require.Nil(t, frame)
	require.Equal(t, 17, n)
	require.Zero(t, f.seen)
}
