// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// newQueue returns the queue below /l.
func newQueue(t *testing.T, client *recipes.Client, opts *Options) *Queue {
	t.Helper()
	queue, err := New(client, "/l", opts)
	require.NoError(t, err)
	return queue
}

// claimed returns a claim of the queue below /l, which has no other contender.
func claimed(t *testing.T, client *recipes.Client) *recipes.Claim {
	t.Helper()
	claim, err := newQueue(t, client, nil).Claim(t.Context())
	require.NoError(t, err)
	return claim
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// dialTo makes connections whose server end runs serve.
func dialTo(t *testing.T, serve func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serve(server)
		return client, nil
	}
}

// requireNoConnection requires that Connect fails because every server runs serve, and
// returns the error.
func requireNoConnection(t *testing.T, within time.Duration, serve func(net.Conn)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	began := time.Now()
	client, err := recipes.Connect(ctx, []string{"zk1.example.org", "[::1]:2182"}, &recipes.Options{
		SessionTimeout: testTimeout, Dial: dialTo(t, serve), Logger: slog.New(slog.DiscardHandler),
	})
	require.Nil(t, client)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, recipes.ErrUncertain, "there was no session")
	require.ErrorContains(t, err, "connect: ")
	require.ErrorContains(t, err, "zk1.example.org:2181")
	require.ErrorContains(t, err, "[::1]:2182")
	require.LessOrEqual(t, time.Since(began), within+time.Second, "what Connect has started is cleaned up")
	return err
}

func TestServerThatNeverAnswersIsNamedWithinCtx(t *testing.T) {
	never := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	faketime.Test(t, func(t *testing.T) {
		err := requireNoConnection(t, time.Second, never) // less than a handshake may take
		require.ErrorContains(t, err, "no answer from")
	})
	faketime.Test(t, func(t *testing.T) {
		err := requireNoConnection(t, 20*time.Second, never)
		require.ErrorContains(t, err, "accepted the connection and did not answer the handshake")
	})
}

func TestServerThatIsNotZooKeeperIsNamedWithinCtx(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		err := requireNoConnection(t, time.Second, func(conn net.Conn) {
			if _, err := wiretest.Read(conn); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}
			_ = conn.Close()
		})
		require.ErrorContains(t, err, `not a ZooKeeper server: its answer to the handshake begins with "HTTP"`)
	})
}

func TestServerThatGrantsNonsenseIsNotTakenForZooKeeper(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		err := requireNoConnection(t, time.Second, func(conn net.Conn) {
			if _, err := wiretest.Read(conn); err == nil {
				_, _ = conn.Write(wiretest.Hello(0, 7))
			}
			_ = conn.Close()
		})
		require.ErrorContains(t, err, "not a ZooKeeper server: it granted a session timeout of 0s")
	})
}

func TestServerThatRefusesTheSessionIsNamedWithinCtx(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		err := requireNoConnection(t, time.Second, func(conn net.Conn) {
			_, _ = wiretest.Read(conn)
			_ = conn.Close()
		})
		require.ErrorContains(t, err, "closed the connection during the handshake")
	})
}

func TestInvalidArgumentsOfConnectAreAnImmediateError(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { panic("nothing is dialled") }
	for why, c := range map[string]struct {
		servers []string
		opts    *recipes.Options
	}{
		"server list [] is empty":                                  {nil, &recipes.Options{Dial: dial}},
		`server "zk1:zk1" has no valid port`:                       {[]string{"zk1:zk1"}, &recipes.Options{Dial: dial}},
		"session timeout 999ms is below the minimum of 1s":         {[]string{"zk1"}, &recipes.Options{Dial: dial, SessionTimeout: 999 * time.Millisecond}},
		`credential of scheme "sasl": use Options.SASL`:            {[]string{"zk1"}, &recipes.Options{Dial: dial, Auth: []recipes.Auth{{Scheme: "sasl"}}}},
		`namespace: path "//" has an empty segment`:                {[]string{"zk1"}, &recipes.Options{Dial: dial, Namespace: "//"}},
		"ACL entry {Perms:0 Scheme:world ID:anyone} has no scheme": {[]string{"zk1"}, &recipes.Options{Dial: dial, ACL: zk.WorldACL(0)}},
	} {
		_, err := recipes.Connect(t.Context(), c.servers, c.opts)
		require.ErrorContains(t, err, "connect: "+why)
	}
}

func TestRefusedCredentialsAreAnImmediateError(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts := s.options()
		opts.Auth = []recipes.Auth{{Scheme: "plugin", Data: []byte("secret")}}
		began := time.Now()
		_, err := recipes.Connect(t.Context(), s.Addrs(), opts)
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		require.ErrorContains(t, err, "authenticate plugin")
		require.NotContains(t, err.Error(), "secret")
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

func TestNegotiatedTimeoutCountsAndIsToBeSeen(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startEnsemble(t, zktest.Options{InMemory: true, Tick: testTimeout / 40})
		client := s.connect(s.options())
		require.Equal(t, testTimeout/2, client.SessionTimeout(), "20 ticks at most")
		claim := claimed(t, client)
		require.Equal(t, testTimeout/2*3/4, time.Until(claim.Deadline()))
	})
}

func TestCloseNotifiesHoldersFirst(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		var order []string
		opts := s.options()
		opts.Trace = &recipes.Trace{
			Lost:         func(recipes.QueueEvent) { order = append(order, "lost is traced") },
			SessionEnded: func(recipes.SessionEvent) { order = append(order, "end is traced") },
		}
		client := s.connect(opts)
		claim := claimed(t, client)
		ctx, cancel := claim.Context(t.Context())
		defer cancel()
		s.Intercept(zktest.Rule{Op: "closeSession", Before: func(zktest.Request) {
			if !closed(claim.Done()) || ctx.Err() == nil {
				t.Error("the session was closed before its holder was notified")
			}
		}})
		began := time.Now()
		require.NoError(t, client.Close())
		require.True(t, closed(claim.Done()))
		require.ErrorIs(t, claim.Err(), recipes.ErrLost)
		require.ErrorIs(t, claim.Err(), recipes.ErrClosed)
		require.ErrorIs(t, context.Cause(ctx), recipes.ErrClosed)
		require.Len(t, s.seen(isOp("closeSession")), 1)
		require.Empty(t, s.queue(), "its nodes are deleted with it")
		require.Equal(t, []string{"lost is traced", "end is traced"}, order)
		require.LessOrEqual(t, time.Since(began), time.Second)
		require.NoError(t, client.Close()) // again: no effect
	})
}

// A slowReport is a grant the report of whose end takes long.
type slowReport struct{ nodes.Ender }

func (s slowReport) End(cause error) func() {
	report := s.Ender.End(cause)
	return func() {
		time.Sleep(time.Minute)
		report()
	}
}

func TestCloseReportsEveryLossBeforeItReturns(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		const claims = 20
		lost := 0
		opts := s.options()
		opts.Trace = &recipes.Trace{Lost: func(recipes.QueueEvent) { lost++ }}
		client := s.connect(opts)
		for i := range claims {
			queue, err := New(client, fmt.Sprintf("/l%d", i), nil)
			require.NoError(t, err)
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.NoError(t, held(claim).Session().Grant(held(claim).Node(), slowReport{held(claim).Ender()}, time.Now()))
		}
		client.Close()
		reported := lost
		require.Equal(t, claims, reported)
		require.Zero(t, client.DroppedEvents())
	})
}

// The goroutine that ends a session can be delayed before it reports the losses.
func TestLossesAreTracedBeforeTheEndOfTheirSession(t *testing.T) {
	for name, end := range map[string]func(*ensemble, *recipes.Client){
		"close": func(_ *ensemble, client *recipes.Client) { client.Close() },
		"expiry": func(s *ensemble, client *recipes.Client) {
			s.expire(client.SessionID())
			time.Sleep(time.Hour)
		},
	} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			var order []string
			opts := s.options()
			opts.Trace = &recipes.Trace{
				SessionOpened: func(recipes.SessionEvent) { order = append(order, "opened") },
				Lost:          func(recipes.QueueEvent) { order = append(order, "lost") },
				SessionEnded:  func(recipes.SessionEvent) { order = append(order, "ended") },
			}
			client := s.connect(opts)
			claim := claimed(t, client)
			require.NoError(t, held(claim).Session().Grant(held(claim).Node(), slowReport{held(claim).Ender()}, time.Now()))
			end(s, client)
			synctest.Wait()
			require.Equal(t, []string{"opened", "lost", "ended"}, order[:3], name)
		})
	}
}

func TestCloseOfADetachedClientTakesASecondAtMostAndIsUncertain(t *testing.T) {
	for name, reset := range map[string]bool{"it does not know yet": false, "it tries to reconnect": true} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			claim := claimed(t, client)
			s.partition()
			if reset {
				s.link.Reset()
			}
			time.Sleep(time.Second)
			began := time.Now()
			err := client.Close()
			require.ErrorIs(t, err, recipes.ErrUncertain, name)
			var failed *recipes.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, "close the session", failed.Op)
			require.ErrorIs(t, claim.Err(), recipes.ErrClosed, name)
			require.LessOrEqual(t, time.Since(began), time.Second, name)
			require.Equal(t, err, client.Close(), "%s: the same from a second call", name)
		})
	}
}

// An expired session has nothing left to close.
func TestCloseAfterTheSessionHasExpiredIsNoError(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		s.partition()
		<-claim.Done()
		time.Sleep(10 * testTimeout)
		require.NoError(t, client.Close())
	})
}

func TestCloseIsUncertainIfItsAnswerIsLost(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{Op: "closeSession", Before: func(zktest.Request) { s.partition() }})
		require.ErrorIs(t, client.Close(), recipes.ErrUncertain)
	})
}

func TestWaiterIsNotifiedOfTheClose(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claimed(t, client)
		result := make(chan error, 1)
		go func() {
			_, err := newQueue(t, client, nil).Claim(t.Context())
			result <- err
		}()
		synctest.Wait()
		client.Close()
		require.ErrorIs(t, <-result, recipes.ErrClosed)
	})
}

func TestNilContextAndClosedClientAreErrors(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		claim := claimed(t, client)
		calls := map[string]func(ctx context.Context) error{
			"claim":      func(ctx context.Context) error { _, err := queue.Claim(ctx); return err },
			"try":        func(ctx context.Context) error { _, err := queue.Try(ctx); return err },
			"contenders": func(ctx context.Context) error { _, err := queue.Contenders(ctx); return err },
			"front":      func(ctx context.Context) error { _, err := queue.Front(ctx); return err },
			"check":      claim.Check,
			"commit":     func(ctx context.Context) error { _, err := claim.Commit(ctx); return err },
		}
		var none context.Context
		for name, call := range calls {
			require.ErrorIs(t, call(none), sentinel.ErrNilContext, name)
		}
		require.ErrorIs(t, queue.Release(none, claim), sentinel.ErrNilContext)
		_, err := recipes.Connect(none, s.Addrs(), s.options())
		require.ErrorIs(t, err, sentinel.ErrNilContext)
		require.NoError(t, claim.Err(), "and nothing happened")

		synctest.Wait() // for the first heartbeat
		requests := len(s.seen(anyRequest))
		client.Close()
		for name, call := range calls {
			require.ErrorIs(t, call(t.Context()), recipes.ErrClosed, name)
		}
		require.ErrorIs(t, queue.Release(t.Context(), claim), recipes.ErrClosed)
		require.Len(t, s.seen(anyRequest), requests+1, "the close, and nothing after it")
		require.Equal(t, 1, int(s.dials.Load()))
		require.Zero(t, client.OutstandingNodes())
	})
}
