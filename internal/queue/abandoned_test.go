// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestSessionThatNoServerServesForTwiceItsTimeoutIsAbandoned(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		old := newest(client)
		time.Sleep(time.Second)
		// Servers that lost their data refuse a session that has seen more, for ever.
		refused := s.Intercept(zktest.Rule{Op: "connect", Lose: zktest.ToServer})
		s.link.Reset()
		time.Sleep(2*testTimeout - time.Second)
		require.NoError(t, old.Context().Err())
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, context.Cause(old.Context()), recipes.ErrSessionExpired)

		refused.Remove()
		claim := claimed(t, client)
		require.NoError(t, claim.Err())
		require.NotSame(t, old, newest(client))
	})
}

// Its requests were sent long before: the server gets the time to answer others.
func TestSessionThatIsServedAgainBeforeTwiceItsTimeoutIsNotAbandoned(t *testing.T) {
	for _, outage := range []time.Duration{testTimeout, testTimeout * 8 / 5, testTimeout * 9 / 5} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			claim := claimed(t, client)
			own := newest(client)
			time.Sleep(untilSteady)
			s.partition()
			time.Sleep(testTimeout / 5) // a heartbeat is sent in vain
			s.stop()
			s.heal()
			time.Sleep(outage)
			s.start()
			time.Sleep(testTimeout / 2)
			require.ErrorIs(t, claim.Err(), recipes.ErrDeadline)
			require.NoError(t, context.Cause(own.Context()), "%v", outage)
			require.Empty(t, s.queue(), "deleted in the same session")
		})
	}
}

func TestAbandonedSessionIsClosedWhenEnsembleReturns(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		old := client.SessionID()
		s.stop()
		time.Sleep(4 * testTimeout)
		require.ErrorIs(t, claim.Err(), recipes.ErrDeadline)
		s.start()
		time.Sleep(3 * time.Second)
		require.NotEqual(t, old, client.SessionID())
		closes := s.seen(isOp("closeSession"))
		require.Len(t, closes, 1)
		require.Equal(t, old, closes[0].Session)
		require.Empty(t, s.queue(), "the ensemble has kept it alive, and would for another T")
	})
}

func TestAbandonedSessionThatHasExpiredOpensNoOther(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		conn, old := client.Conn(), client.SessionID()
		time.Sleep(time.Second)
		before := runtime.NumGoroutine()
		s.refuse(4 * testTimeout)
		time.Sleep(3 * testTimeout)
		result := make(chan error, 1)
		go func() { result <- conn.Delete("/queued", -1) }()
		require.Empty(t, s.Sessions(), "it has expired")
		time.Sleep(2 * testTimeout)
		require.Error(t, <-result)
		require.NotEqual(t, old, client.SessionID())
		opened := s.seen(func(r zktest.Request) bool { return r.Op == "connect" && r.Session == 0 })
		require.Len(t, opened, 2, "the first session and the next")
		time.Sleep(time.Hour)
		require.Len(t, s.seen(isOp("connect")), 3)
		require.Empty(t, s.seen(isOp("delete")))
		require.LessOrEqual(t, runtime.NumGoroutine(), before)
	})
}

// A server that receives the handshake believes the session to be alive, although its answer
// never arrives: further attempts would let the nodes block other clients.
func TestSessionWhoseHandshakesAreNotAnsweredIsAbandonedSoonAfterTheDeadline(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		own := newest(client)
		time.Sleep(untilSteady)
		s.Intercept(zktest.Rule{Hold: zktest.ToServer})
		<-claim.Done()
		time.Sleep(testTimeout / 2)
		require.ErrorIs(t, context.Cause(own.Context()), session.ErrAbandoned)
	})
}

// A server that hangs up during the handshake has no quorum. If there is none, a mute server cannot keep the session alive for longer
// than any other session, and the session must be there when a leader serves again: abandoned, its nodes would block all contenders for T
// from then on.
func TestSessionOutlivesTheQuorumBesideAServerThatHangs(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		time.Sleep(untilSteady)
		id := client.SessionID()
		require.NoError(t, s.Servers()[0].Pause(t.Context()))
		require.NoError(t, s.Servers()[1].Kill(t.Context()))
		<-claim.Done()
		time.Sleep(testTimeout / 4)
		require.NoError(t, s.Servers()[1].Start(t.Context()))
		next := claimed(t, client)
		require.Equal(t, id, client.SessionID())
		require.Greater(t, next.Token(), claim.Token())
		require.NoError(t, s.Servers()[0].Unpause(t.Context()))
	})
}

// muteUntilAbandoned has a client claim /l, and no server answer it until it has abandoned the session. It returns the claim, the session,
// the rule that makes the servers mute, and when the claim ended.
func (s *ensemble) muteUntilAbandoned(of *recipes.Client) (claim *recipes.Claim, own *client.Session, mute *zktest.Interceptor, ended time.Time) {
	s.t.Helper()
	claim, own = claimed(s.t, of), newest(of)
	time.Sleep(untilSteady)
	mute = s.Intercept(zktest.Rule{Hold: zktest.ToClient})
	<-claim.Done()
	ended = time.Now()
	<-own.Context().Done()
	require.ErrorIs(s.t, context.Cause(own.Context()), session.ErrAbandoned)
	return claim, own, mute, ended
}

// As its handshakes are answered by no server, the client does not try to close the abandoned session until another one of its sessions
// is served: an attempt could keep it alive. Then it does, so that no contender waits until the session expires.
func TestMuteSessionThatWasAbandonedIsClosedOnceTheNextOneIsServed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim, own, mute, _ := s.muteUntilAbandoned(client)
		time.Sleep(testTimeout / 8) // its last attempt has failed
		mute.Remove()
		began := time.Now()
		next := claimed(t, client)
		require.Less(t, time.Since(began), testTimeout/4, "its old node is not ahead for as long as the session would last")
		require.NotEqual(t, own.ID(), client.SessionID())
		require.Greater(t, next.Token(), claim.Token())
	})
}

// The holder was notified at the deadline, at which its session was abandoned: its work has T/4 to stop, or until it releases.
func TestAbandonedSessionIsClosedWhenTheWorkOfItsHolderHasHadTimeToStop(t *testing.T) {
	for _, releases := range []bool{false, true} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			claim, _, mute, ended := s.muteUntilAbandoned(client)
			mute.Remove()
			time.Sleep(time.Until(ended.Add(testTimeout/4-time.Millisecond)) / 2)
			require.Len(t, s.queue(), 1)
			if releases {
				require.ErrorIs(t, newQueue(t, client, nil).Release(t.Context(), claim), recipes.ErrDeadline)
				time.Sleep(testTimeout / 12)
				require.Empty(t, s.queue(), "its work has stopped")
				return
			}
			time.Sleep(time.Until(ended.Add(testTimeout/4 - time.Millisecond)))
			require.Len(t, s.queue(), 1)
			time.Sleep(testTimeout / 8)
			require.Empty(t, s.queue())
		})
	}
}

// While its nodes are kept, the session is served: it must be served again when it is closed, or its nodes would block other clients for T.
func TestAbandonedSessionIsClosedAlthoughItsConnectionEndsWhileItsNodesAreKept(t *testing.T) {
	for _, refused := range []time.Duration{testTimeout / 1000, testTimeout / 8, testTimeout / 4} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			_, own, mute, ended := s.muteUntilAbandoned(client)
			mute.Remove()
			<-own.Attached()
			time.Sleep(time.Until(ended.Add(testTimeout / 6)))
			s.refuse(refused)
			time.Sleep(refused + testTimeout/3)
			require.Empty(t, s.queue(), "%v", refused)
		})
	}
}

// A leader that serves again counts a whole T anew, for the abandoned session as well.
func TestAbandonedSessionIsClosedAlthoughTheQuorumIsLostOnceMore(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim, own, mute, _ := s.muteUntilAbandoned(client)
		time.Sleep(testTimeout / 8) // its last attempt has failed
		stuck := s.Intercept(zktest.Rule{Op: "connect", Session: own.ID(), Hold: zktest.ToServer})
		mute.Remove()
		_, err := client.History(t.Context()) // in the next session
		require.NoError(t, err)
		for _, server := range s.Servers()[:2] {
			require.NoError(t, server.Kill(t.Context()))
		}
		time.Sleep(testTimeout * 3 / 2)
		stuck.Remove()
		for _, server := range s.Servers()[:2] {
			require.NoError(t, server.Start(t.Context()))
		}
		began := time.Now()
		next := claimed(t, client)
		require.Less(t, time.Since(began), testTimeout/2, "its old node is not ahead for as long as the session would last")
		require.Greater(t, next.Token(), claim.Token())
	})
}
