// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

// newTestDialer returns the dialer of a session with T = 12 s, over connections that
// dial makes. The returned function ends the session.
func newTestDialer(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error), servers ...string) (*dialer, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	d := &dialer{
		config:   &Config{Dial: dial},
		servers:  servers,
		ctx:      ctx,
		over:     ctx,
		audible:  make(chan struct{}),
		timeout:  wiretest.Timeout,
		failures: make(map[string]error),
		tried:    make(map[string]time.Time),
	}
	d.connect = func(conn net.Conn, server string, greetBy time.Time) net.Conn {
		return wire.New(conn, greetBy, nil, &d.blocking, wire.Hooks{
			Greeted:  func(h wire.Hello) error { d.greeted(h); return nil },
			Failed:   func(err error) { d.miss(server, err) },
			Answered: func(time.Time) {},
			Proved:   func(_, _ time.Time) {},
		})
	}
	return d, cancel
}

// nextConn asks for a server and dials it, as the ZooKeeper client does.
func (d *dialer) nextConn() (net.Conn, error) {
	server, _ := d.Next()
	return d.dial("tcp", server, time.Second)
}

var errUnreachable = errors.New("no route to host")

// unreachable fails immediately.
func unreachable(context.Context, string, string) (net.Conn, error) { return nil, errUnreachable }

// endless fails when its context ends.
func endless(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// mute makes connections to servers that never answer.
func mute(t *testing.T, takes time.Duration) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	return func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(takes)
		client, server := net.Pipe()
		t.Cleanup(func() { _ = server.Close() })
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client, nil
	}
}

// handshake waits for an answer for as long as the ZooKeeper client would.
func handshake(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(wiretest.Timeout * 20 / 3)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 4))
	return errors.Join(err, conn.Close())
}

func TestHandshakeIsBoundedByThreeSecondsAtFirstAndByATwelfthOfTheTimeoutOnceAttached(t *testing.T) {
	for name, attached := range map[string]bool{"at first": false, "once attached": true} {
		for _, takes := range []time.Duration{0, 700 * time.Millisecond} { // dial and handshake share the bound
			faketime.Test(t, func(t *testing.T) {
				d, _ := newTestDialer(t, mute(t, takes), "zk1:2181")
				want := 3 * time.Second
				if attached {
					d.Connected()
					want = wiretest.Timeout / 12
				}
				began := time.Now()
				conn, err := d.nextConn()
				require.NoError(t, err)
				require.ErrorIs(t, handshake(conn), os.ErrDeadlineExceeded)
				require.Equal(t, want, time.Since(began), name)
			})
		}
	}
}

func TestDialIsBoundedByThreeSecondsAtFirstAndByATwelfthOfTheTimeoutOnceAttached(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, endless, "zk1:2181", "zk2:2181")
		began := time.Now()
		_, err := d.nextConn()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(began))

		d.Connected()
		began = time.Now()
		_, err = d.nextConn()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, wiretest.Timeout/12, time.Since(began))
	})
}

func TestBoundsFollowTheNegotiatedTimeout(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, endless, "zk1:2181", "zk2:2181")
		for granted, bound := range map[time.Duration]time.Duration{24 * time.Second: 3 * time.Second, 6 * time.Second: 2 * time.Second} {
			d.misses = 0
			d.greeted(wire.Hello{Timeout: granted})
			began := time.Now()
			_, err := d.nextConn()
			require.Error(t, err)
			require.Equal(t, bound, time.Since(began))
		}
	})
}

func TestServersAreTriedInTurn(t *testing.T) {
	d, _ := newTestDialer(t, unreachable, "a:1", "b:1", "c:1")
	for range 3 {
		for _, want := range []string{"a:1", "b:1", "c:1"} {
			server, full := d.Next()
			require.Equal(t, want, server)
			require.False(t, full, "a full round would cost the client a second")
		}
	}
	require.Equal(t, 3, d.Len())
	require.NoError(t, d.Init([]string{"10.0.0.1:1"}), "names stay names")
	server, _ := d.Next()
	require.Equal(t, "a:1", server)
}

func TestEveryServerIsTriedOnceWithoutAPause(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, unreachable, "a:1", "b:1", "c:1")
		began := time.Now()
		for range 3 {
			_, err := d.nextConn()
			require.ErrorIs(t, err, errUnreachable)
		}
		require.Equal(t, began, time.Now())
		_, err := d.nextConn()
		require.ErrorIs(t, err, errUnreachable)
		require.Positive(t, time.Since(began), "the second round is not rushed")
	})
}

func TestPauseBetweenAttemptsGrowsAndIsBounded(t *testing.T) {
	for timeout, bound := range map[time.Duration]time.Duration{
		12 * time.Second: 500 * time.Millisecond, // T/24
		48 * time.Second: time.Second,
	} {
		faketime.Test(t, func(t *testing.T) {
			d, _ := newTestDialer(t, unreachable, "a:1", "b:1")
			d.greeted(wire.Hello{Timeout: timeout})
			for round := range 100 {
				for range 2 {
					began := time.Now()
					_, err := d.nextConn()
					require.Error(t, err)
					full := min(10*time.Millisecond<<min(max(round-1, 0), 30), bound)
					if round == 0 {
						full = 0
					}
					require.LessOrEqual(t, time.Since(began), full, "round %d", round)
					require.GreaterOrEqual(t, time.Since(began), full/2, "round %d: half is left to chance, so that clients spread", round)
				}
			}
		})
	}
}

func TestPauseIsShortAgainAfterAConnectionThatLasted(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, unreachable, "a:1")
		for range 20 {
			_, _ = d.nextConn()
		}
		d.Connected()
		time.Sleep(time.Minute)
		began := time.Now()
		_, err := d.nextConn()
		require.Error(t, err)
		require.Equal(t, began, time.Now())
	})
}

func TestServerThatDropsEveryConnectionAfterTheHandshakeIsNotRushed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, mute(t, 0), "a:1", "b:1")
		began := time.Now()
		for range 100 {
			conn, err := d.nextConn()
			require.NoError(t, err)
			d.Connected()
			require.NoError(t, conn.Close())
		}
		require.Greater(t, time.Since(began), 10*time.Second)
	})
}

func TestDialerOfASessionThatIsOverMakesNoConnection(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		d, end := newTestDialer(t, func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errUnreachable
		}, "a:1", "b:1")
		d.Connected()
		_, full := d.Next()
		require.False(t, full)
		end()
		for range 10 {
			server, full := d.Next()
			require.True(t, full, "the client pauses, and fails what waits in its queue")
			began := time.Now()
			_, err := d.dial("tcp", server, time.Second)
			require.ErrorIs(t, err, errSessionOver)
			require.Equal(t, began, time.Now())
		}
		require.Zero(t, dials.Load())
	})
}

func TestEndOfTheSessionEndsADialAndAPause(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, end := newTestDialer(t, endless, "a:1")
		time.AfterFunc(time.Millisecond, end)
		began := time.Now()
		_, err := d.nextConn()
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Millisecond, time.Since(began))

		d, end = newTestDialer(t, unreachable, "a:1")
		for range 20 {
			_, _ = d.nextConn()
		}
		time.AfterFunc(time.Millisecond, end)
		began = time.Now()
		_, err = d.nextConn()
		require.ErrorIs(t, err, errSessionOver)
		require.Equal(t, time.Millisecond, time.Since(began))
	})
}

func TestWhyNamesEachServerWithItsReason(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		deaf := mute(t, 0)
		d, _ := newTestDialer(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "mute:1" {
				return deaf(ctx, network, address)
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New(address + " does not exist")}
		}, "mute:1", "missing:1")
		require.EqualError(t, d.why(), "no answer from mute:1, missing:1")
		conn, err := d.nextConn()
		require.NoError(t, err)
		require.Error(t, handshake(conn))
		_, err = d.nextConn()
		require.Error(t, err)
		require.ErrorContains(t, d.why(), "mute:1: accepted the connection and did not answer the handshake")
		require.ErrorContains(t, d.why(), "missing:1: dial tcp: missing:1 does not exist")
		d.Connected()
		require.EqualError(t, d.why(), "no answer from mute:1, missing:1", "what has mended is no reason any more")
	})
}

func TestServerNameOfTLSIsTheHostOfTheServerList(t *testing.T) {
	for want, config := range map[string]*tls.Config{
		"zk1.example.org": {},
		"configured":      {ServerName: "configured"},
	} {
		faketime.Test(t, func(t *testing.T) {
			asked := make(chan string, 1)
			d, _ := newTestDialer(t, func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					_ = tls.Server(server, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
						asked <- h.ServerName
						return nil, errors.New("no certificate in this test")
					}}).Handshake()
					_ = server.Close()
				}()
				return client, nil
			}, "zk1.example.org:2281")
			d.config.TLS = config
			_, err := d.nextConn()
			require.ErrorContains(t, err, "TLS handshake")
			require.ErrorContains(t, d.why(), "zk1.example.org:2281: TLS handshake")
			require.Equal(t, want, <-asked)
			require.Equal(t, want == "configured", config.ServerName != "", "the caller's configuration is not written to")
		})
	}
}

func TestTLSHandshakeThatIsNeverAnsweredEndsAtTheBound(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, mute(t, 0), "zk1:2281")
		d.config.TLS = &tls.Config{}
		began := time.Now()
		_, err := d.nextConn()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestSilentServerIsLeftOnceInHalfATimeoutForOneThatWasNotTried(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, mute(t, 0), "zk1:2181", "zk2:2181", "zk3:2181")
		_, err := d.nextConn()
		require.NoError(t, err)
		d.Connected()
		require.Zero(t, d.mayLeave(time.Now()), "zk2 was not tried")
		for _, waited := range []time.Duration{0, wiretest.Timeout / 4} {
			time.Sleep(waited)
			stay := d.mayLeave(time.Now())
			require.Positive(t, stay)
			require.LessOrEqual(t, stay, wiretest.Timeout/2+wiretest.Timeout/8, "with jitter")
		}
		time.Sleep(wiretest.Timeout/4 + wiretest.Timeout/8)
		require.Zero(t, d.mayLeave(time.Now()))

		time.Sleep(wiretest.Timeout)
		for range 2 { // zk2 and zk3 do not answer, and so zk1 is next
			_, err = d.nextConn()
			require.NoError(t, err)
		}
		time.Sleep(wiretest.Timeout / 8)
		require.Zero(t, d.mayLeave(time.Now()), "zk1 was tried long ago")
	})
}

func TestOnlyServerIsLeftForANewConnectionToItself(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		d, _ := newTestDialer(t, mute(t, 0), "zk1:2181")
		_, err := d.nextConn()
		require.NoError(t, err)
		d.Connected()
		require.Zero(t, d.mayLeave(time.Now()), "also when it was connected a moment ago")
		require.Positive(t, d.mayLeave(time.Now()), "but once in T/2")
	})
}
