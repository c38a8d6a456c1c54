// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// answers are the results of requests in these tests.
type answers struct {
	value string
	err   error
}

func TestCallReturnsWhatTheServerAnswered(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		for _, want := range []answers{{"value", nil}, {"", zk.ErrNoNode}} {
			got, err := session.Call(t.Context(), newest(client).Session, func(*zk.Conn) (string, error) { return want.value, want.err })
			require.Equal(t, want, answers{got, err})
		}
	})
}

func TestCallEndsWithItsContextAndTheOutcomeIsUnknown(t *testing.T) {
	for _, late := range []answers{{"value", nil}, {"", zk.ErrNodeExists}} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			answered := make(chan struct{})
			began := time.Now()
			_, err := session.Call(ctx, newest(client).Session, func(*zk.Conn) (string, error) {
				<-answered
				return late.value, late.err
			})
			require.Equal(t, time.Second, time.Since(began))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, recipes.ErrUncertain)
			require.Equal(t, session.Unknown, session.OutcomeOf(err))
			close(answered) // no caller waits for it, and it waits for none
		})
	}
}

func TestCloseWaitsForWhatACallHasAbandoned(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{Op: "getData", Hold: zktest.ToServer})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		outcome := errors.New("none")
		_, err := session.Call(ctx, newest(client).Session, func(conn *zk.Conn) (struct{}, error) {
			_, _, err := conn.Get("/l")
			outcome = err
			return struct{}{}, err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		client.Close()
		require.ErrorIs(t, outcome, zk.ErrConnectionClosed)
	})
}

func TestNothingIsSentWhileDetached(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		own := newest(client)
		s.detach()
		synctest.Wait()
		require.False(t, own.IsServed())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second*3/2)
		defer cancel()
		_, err := session.Call(ctx, own.Session, func(*zk.Conn) (struct{}, error) {
			t.Error("sent")
			return struct{}{}, nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, recipes.ErrUncertain)
		require.Equal(t, session.Unsent, session.OutcomeOf(err))
		require.ErrorContains(t, err, "not connected")
		require.ErrorContains(t, err, ":2181: context deadline exceeded", "it says who could not be reached")

		s.heal()
		_, err = session.Call(t.Context(), own.Session, func(*zk.Conn) (struct{}, error) { return struct{}{}, nil })
		require.NoError(t, err, "it waits for a server")
	})
}

func TestCallInASessionThatIsOverFailsImmediatelyWithTheReason(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		own := newest(client)
		cause := errors.New("enough")
		own.End(cause)
		_, err := session.Call(t.Context(), own.Session, func(*zk.Conn) (struct{}, error) {
			t.Error("sent")
			return struct{}{}, nil
		})
		require.ErrorIs(t, err, cause)
		require.Equal(t, session.Unsent, session.OutcomeOf(err))
	})
}

func TestEndOfTheSessionEndsACallThatWaitsForAServer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		own := newest(client)
		s.detach()
		synctest.Wait()
		cause := errors.New("enough")
		time.AfterFunc(time.Second, func() { own.End(cause) })
		_, err := session.Call(t.Context(), own.Session, func(*zk.Conn) (struct{}, error) { return struct{}{}, nil })
		require.ErrorIs(t, err, cause)
		s.heal()
	})
}

// A request can enter the client's queue as its connection ends. It and its caller would wait
// there for as long as no server serves the session.
func TestCallAndWaitDoesNotStayInTheQueueOfADetachedClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		own := newest(client)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout/4)
		defer cancel()
		began := time.Now()
		tries := 0
		_, err := session.CallAndWait(ctx, own.Session, session.Ordinary, func(conn *zk.Conn) (struct{}, error) {
			tries++
			s.detach()
			synctest.Wait()
			require.False(t, own.IsServed())
			_, _, err := conn.Get("/l")
			return struct{}{}, err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, session.Unsent, session.OutcomeOf(err), "it can be asked again")
		require.Equal(t, 1, tries)
		require.LessOrEqual(t, time.Since(began), testTimeout/2)
	})
}

// A Lock returns no error because no server could be reached for a while: a request that the
// client failed unsent is sent again.
func TestUnsentRequestIsSentAgain(t *testing.T) {
	for name, call := range map[string]func(context.Context, session.Sender, func(*zk.Conn) (string, error)) (string, error){
		"call": session.Call[string], "callThrough": func(ctx context.Context, s session.Sender, f func(*zk.Conn) (string, error)) (string, error) {
			return session.CallAndWait(ctx, s, session.Ordinary, f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newEnsemble(t)
				client := s.connect(s.options())
				tries := 0
				got, err := call(t.Context(), newest(client).Session, func(*zk.Conn) (string, error) {
					if tries++; tries < 3 {
						return "", zk.ErrNoServer
					}
					return "value", nil
				})
				require.NoError(t, err)
				require.Equal(t, "value", got)
				require.Equal(t, 3, tries)
			})
		})
	}
}
