// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxyForwardsBytesUnchanged(t *testing.T) {
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

func TestProxyResetsClientIfServerIsNotReachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p, err := NewProxy(l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	refused(t, p)
}

func TestDroppedRequestsNeverReachServer(t *testing.T) {
	p, s := newProxy(t)
	old := dialProxy(t, p)
	old.echo([]byte("one"))
	p.Drop(ToServer)
	fresh := dialProxy(t, p)
	for _, c := range []*frameClient{old, fresh} {
		require.NoError(t, writeFrame(c, []byte("two")))
		c.silent()
	}
	eventually(t, "the proxy has dropped the request of both", func() bool { return gaps(p) == 2 })
	require.EqualValues(t, 1, s.served.Load())

	p.Heal()
	old.isReset()
	fresh.isReset()
	dialProxy(t, p).echo([]byte("three"))
}

// gaps returns how many connections have lost bytes on the way to the server. Heal resets no others.
func gaps(p *Proxy) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.gaps&ToServer != 0 {
			n++
		}
	}
	return n
}

func TestRequestsOfDroppedRepliesTakeEffect(t *testing.T) {
	p, s := newProxy(t)
	c := dialProxy(t, p)
	p.Drop(ToClient)
	require.NoError(t, writeFrame(c, []byte("one")))
	eventually(t, "the request arrives", func() bool { return s.served.Load() == 1 })
	c.silent()
}

func TestConnectionWithoutLossOutlivesFault(t *testing.T) {
	p, _ := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("one"))
	p.Drop(Both)
	p.Heal()
	c.echo([]byte("two"))
}

func TestEndOfConnectionIsDroppedToo(t *testing.T) {
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

func TestDelayedBytesArriveLaterAndInOrder(t *testing.T) {
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
	require.Less(t, time.Since(begin), 100*by, "what they would take one after the other")
	p.Delay(Both, 0)
	c.echo([]byte("x"))
}

func TestResetEndsConnectionsAndAcceptsNewOnes(t *testing.T) {
	p, s := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("one"))
	p.Reset()
	c.isReset()
	eventually(t, "the server is notified", func() bool { return s.closed.Load() == 1 })
	dialProxy(t, p).echo([]byte("two"))
}

func TestHangingProxyAcceptsAndNeverAnswers(t *testing.T) {
	p, s := newProxy(t)
	old := dialProxy(t, p)
	old.echo([]byte("one"))
	p.Hang()
	fresh := dialProxy(t, p)
	for _, c := range []*frameClient{old, fresh} {
		require.NoError(t, writeFrame(c, []byte("two")))
		c.silent()
	}
	eventually(t, "the proxy has dropped the request of both", func() bool { return gaps(p) == 2 })
	require.Equal(t, 2, p.Accepted())
	require.EqualValues(t, 1, s.conns.Load())
	require.EqualValues(t, 1, s.served.Load())
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
					// A gap must end the connection, and never be read as another frame.
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
	for range 6 {
		for _, fault := range faults {
			before := echoes.Load()
			fault()
			p.Heal()
			eventually(t, "frames are forwarded again", func() bool { return echoes.Load() > before+10 })
		}
	}
	close(stop)
	clients.Wait()
	eventually(t, "no connection remains", func() bool { return p.Connections() == 0 })
}
