// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// answers is what requests return in these tests.
type answers struct {
	value string
	err   error
}

func TestCallReturnsWhatTheServerAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		for _, want := range []answers{{"value", nil}, {"", zk.ErrNoNode}} {
			got, err := call(t.Context(), client.newest(), func(*zk.Conn) (string, error) { return want.value, want.err })
			require.Equal(t, want, answers{got, err})
		}
	})
}

func TestCallEndsWithItsContextAndTheOutcomeIsUnknown(t *testing.T) {
	for _, late := range []answers{{"value", nil}, {"", zk.ErrNodeExists}} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			client := s.connect(t, s.options())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			answered := make(chan struct{})
			began := time.Now()
			_, err := call(ctx, client.newest(), func(*zk.Conn) (string, error) {
				<-answered
				return late.value, late.err
			})
			require.Equal(t, time.Second, time.Since(began))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, ErrUncertain)
			require.Equal(t, unknown, outcomeOf(err))
			close(answered) // nobody waits for it, and it waits for nobody
		})
	}
}

func TestCloseWaitsForWhatACallHasAbandoned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		s.on(func(r stubRequest) verdict {
			if r.op == opGetData {
				return ignore
			}
			return answer
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		outcome := errors.New("none")
		_, err := call(ctx, client.newest(), func(conn *zk.Conn) (struct{}, error) {
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
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		session := client.newest()
		s.cut()
		s.hangUp(0)
		synctest.Wait()
		require.False(t, session.isServed())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second*3/2)
		defer cancel()
		_, err := call(ctx, session, func(*zk.Conn) (struct{}, error) {
			t.Error("sent")
			return struct{}{}, nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUncertain)
		require.Equal(t, unsent, outcomeOf(err))
		require.ErrorContains(t, err, "not connected")
		require.ErrorContains(t, err, ":2181: context deadline exceeded", "it says who could not be reached")

		s.mend()
		_, err = call(t.Context(), session, func(*zk.Conn) (struct{}, error) { return struct{}{}, nil })
		require.NoError(t, err, "it waits for a server")
	})
}

func TestCallInASessionThatIsOverFailsAtOnceWithTheReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		session := client.newest()
		cause := errors.New("enough")
		session.end(cause)
		_, err := call(t.Context(), session, func(*zk.Conn) (struct{}, error) {
			t.Error("sent")
			return struct{}{}, nil
		})
		require.ErrorIs(t, err, cause)
		require.Equal(t, unsent, outcomeOf(err))
	})
}

func TestEndOfTheSessionEndsACallThatWaitsForAServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		session := client.newest()
		s.cut()
		s.hangUp(0)
		synctest.Wait()
		cause := errors.New("enough")
		time.AfterFunc(time.Second, func() { session.end(cause) })
		_, err := call(t.Context(), session, func(*zk.Conn) (struct{}, error) { return struct{}{}, nil })
		require.ErrorIs(t, err, cause)
		s.mend()
	})
}

// A request can come into the client's queue as its connection ends. It would wait
// there for as long as no server serves the session, and its caller with it.
func TestRequestThatIsSeenThroughDoesNotWaitInTheQueueOfADetachedClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		session := client.newest()
		ctx, cancel := context.WithTimeout(t.Context(), stubTimeout/4)
		defer cancel()
		began := time.Now()
		tries := 0
		_, err := callThrough(ctx, session, contender, func(conn *zk.Conn) (struct{}, error) {
			tries++
			s.cut()
			s.hangUp(0)
			synctest.Wait()
			require.False(t, session.isServed())
			_, _, err := conn.Get("/l")
			return struct{}{}, err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, unsent, outcomeOf(err), "it can be asked again")
		require.Equal(t, 1, tries)
		require.LessOrEqual(t, time.Since(began), stubTimeout/2)
	})
}

// Whoever asks for a lock gets no error because a server could not be reached for a
// while: what the client has given back was not sent.
func TestRequestThatWasGivenBackIsMadeAgain(t *testing.T) {
	for name, call := range map[string]func(context.Context, *session, func(*zk.Conn) (string, error)) (string, error){
		"call": call[string], "callThrough": func(ctx context.Context, s *session, f func(*zk.Conn) (string, error)) (string, error) {
			return callThrough(ctx, s, contender, f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStub(t)
				client := s.connect(t, s.options())
				tries := 0
				got, err := call(t.Context(), client.newest(), func(*zk.Conn) (string, error) {
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
