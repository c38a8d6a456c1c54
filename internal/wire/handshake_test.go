// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

func TestHandshakeReportsTheNegotiatedTimeout(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.shake(t)
		require.Equal(t, Hello{Timeout: 12 * time.Second, SessionID: 0x100}, b.hello)
		require.Equal(t, wiretest.Hello(wiretest.Timeout, 0x100), b.frame)
		require.NoError(t, b.failure)
	})
}

func TestHandshakeOfAServerWithoutReadOnlyModeIsUnderstood(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		packet := wiretest.Hello(4*time.Second, 7)[4:]
		b.serve(wiretest.Framed(packet[:36]))
		_, err := b.next()
		require.NoError(t, err)
		require.Equal(t, Hello{Timeout: 4 * time.Second, SessionID: 7}, b.hello)
	})
}

func TestHandshakeOfAnExpiredSessionReachesTheClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.serve(wiretest.Hello(0, 0))
		packet, err := b.next()
		require.NoError(t, err)
		require.Equal(t, wiretest.Hello(0, 0)[4:], packet)
		require.Equal(t, Hello{}, b.hello)
	})
}

func TestHandshakeThatTheHookRefusesDoesNotReachTheClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.hooks.Greeted = func(Hello) error { return io.ErrNoProgress }
		b.serve(wiretest.Hello(time.Second, 7))
		n, err := b.Read(make([]byte, 4))
		require.Zero(t, n)
		require.ErrorIs(t, err, io.ErrNoProgress)
		require.ErrorIs(t, b.failure, io.ErrNoProgress)
	})
}

// The client would allocate as many bytes as the first four say, and wait for
// them without a bound.
func TestServerThatIsNotZooKeeperIsNamedAsSuchAndPassesNothingOn(t *testing.T) {
	for name, banner := range map[string]string{
		"HTTP":               "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"SSH":                "SSH-2.0-OpenSSH_9.9\r\n",
		"Redis":              "-ERR unknown command\r\n",
		"TLS alert":          "\x15\x03\x01\x00\x02\x02\x0a",
		"MySQL":              "\x4a\x00\x00\x00\x0a8.0.36\x00",
		"all ones":           "\xff\xff\xff\xff\xff\xff\xff\xff",
		"nothing in a frame": "\x00\x00\x00\x00",
		"too short a frame":  "\x00\x00\x00\x23.......................................",
		"too long a frame":   "\x00\x00\x01\x01.......................................",
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				b := newWireBench(t, time.Minute)
				b.serve([]byte(banner))
				n, err := b.Read(make([]byte, 4))
				require.Zero(t, n, "the client receives no length")
				require.ErrorContains(t, err, "not a ZooKeeper server")
				require.Equal(t, err, b.failure)
			})
		})
	}
}

func TestServerThatHangsUpDuringTheHandshakeIsSaidNotToServe(t *testing.T) {
	for name, sent := range map[string][]byte{"before its answer": nil, "amid its answer": wiretest.Hello(time.Second, 7)[:20]} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				b := newWireBench(t, time.Minute)
				go func() {
					_, _ = b.server.Write(sent)
					_ = b.server.Close()
				}()
				_, err := b.Read(make([]byte, 4))
				require.ErrorContains(t, err, "closed the connection during the handshake")
				require.Equal(t, err, b.failure)
			})
		})
	}
}

func TestHandshakeEndsAtItsBoundWhateverTheClientAsksFor(t *testing.T) {
	for name, part := range map[string]int{"no answer": 0, "a length and no more": 4, "half an answer": 20} {
		for _, ask := range []time.Duration{0, 80 * time.Second, time.Second / 2} {
			faketime.Test(t, func(t *testing.T) {
				b := newWireBench(t, time.Second)
				b.serve(wiretest.Hello(wiretest.Timeout, 7)[:part])
				began := time.Now()
				deadline, want := time.Time{}, time.Second // none: the client asks for none before the body
				if ask > 0 {
					deadline, want = began.Add(ask), min(ask, time.Second)
				}
				require.NoError(t, b.SetReadDeadline(deadline))
				_, err := b.Read(make([]byte, 4))
				require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
				require.ErrorContains(t, err, "did not answer the handshake")
				require.Equal(t, want, time.Since(began), "%s, %v", name, ask)
			})
		}
	}
}

func TestWriteOfTheHandshakeEndsAtItsBound(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		began := time.Now()
		require.NoError(t, b.SetWriteDeadline(began.Add(80*time.Second)))
		_, err := b.Write(connectRequest(0)) // the server does not read
		require.NoError(t, err, "a Write never fails: the reader reports the error")
		require.Equal(t, time.Second, time.Since(began))
		_, err = b.Read(make([]byte, 4))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.ErrorContains(t, err, "handshake")
		require.Equal(t, err, b.failure)
	})
}

// The client answers a request whose Write has failed more than once, and can block on that for
// good.

func TestHandshakeAnsweredWithAnotherSessionIsThatOfAnExpiredOne(t *testing.T) {
	for name, c := range map[string]struct {
		id   int64
		want Hello
	}{
		"the session":     {0x100, Hello{Timeout: wiretest.Timeout, SessionID: 0x100}},
		"another session": {0x101, Hello{Timeout: wiretest.Timeout, Replaced: true}},
		"none":            {0, Hello{Timeout: wiretest.Timeout}},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				b := newWireBench(t, time.Second)
				b.drain()
				_, err := b.Write(connectRequest(0)) // for session 0x100
				require.NoError(t, err)
				b.serve(wiretest.Hello(wiretest.Timeout, c.id))
				got, err := b.next()
				require.NoError(t, err)
				require.Equal(t, c.want, b.hello)
				require.Equal(t, wiretest.Hello(wiretest.Timeout, c.want.SessionID), wiretest.Framed(got), "what the client reads")
			})
		})
	}
}
