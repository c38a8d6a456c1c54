// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/tuning"
	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// heartbeats returns when the stub received each heartbeat.
func heartbeats(s *stub) []time.Time {
	var at []time.Time
	for _, r := range s.seen(stubRequest.heartbeat) {
		at = append(at, r.at)
	}
	return at
}

// untilSteady is long enough for a deadline to follow from heartbeats alone.
const untilSteady = stubTimeout + 100*time.Millisecond

func TestHeartbeatsEverySixthOfTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		time.Sleep(stubTimeout / 5)
		require.Empty(t, heartbeats(s), "who holds nothing sends none")
		began := time.Now()
		claim := claimed(t, client)
		time.Sleep(time.Minute + time.Millisecond)
		at := heartbeats(s)
		require.Equal(t, began, at[0], "the first is sent immediately after the join")
		for i := range at {
			require.Equal(t, began.Add(time.Duration(i)*stubTimeout/6), at[i])
		}
		require.Len(t, at, 1+int(time.Minute/(stubTimeout/6)))
		require.Equal(t, claim.Path(), s.seen(stubRequest.heartbeat)[0].ops[0].path)

		require.NoError(t, newQueue(t, client, nil).Release(t.Context(), claim))
		before := len(heartbeats(s))
		time.Sleep(time.Hour)
		require.Len(t, heartbeats(s), before, "who holds nothing sends none")
	})
}

func TestHeartbeatsOfATunedClientFollowItsOption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		ctx := tuning.With(t.Context(), tuning.Tuning{Heartbeat: stubTimeout / 4})
		client, err := Connect(ctx, []string{"zk1"}, s.options())
		require.NoError(t, err)
		t.Cleanup(client.Close)
		claim := claimed(t, client)
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
		beats := s.seen(stubRequest.heartbeat)
		require.Greater(t, len(beats), 1000)
		for i, r := range beats[1:] {
			require.Equal(t, stubTimeout/4, r.at.Sub(beats[i].at))
		}
	})
}

func TestSessionsThatOnlyWaitHeartbeatToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", parentMark)
		s.make("/l/another-lock-0000000000", "")
		client := s.connect(t, s.options())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, time.Minute/(stubTimeout/6), len(heartbeats(s)), 1)
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestSteadyDeadlineIsSevenTwelfthsOfTheTimeoutAfterTheLastHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		claim := claimed(t, s.connect(t, s.options()))
		for range 100 {
			time.Sleep(untilSteady + time.Second/3)
			at := heartbeats(s)
			after := claim.Deadline().Sub(at[len(at)-1])
			require.GreaterOrEqual(t, after, stubTimeout*7/12)
			require.LessOrEqual(t, after, stubTimeout*3/4)
		}
	})
}

func TestHeartbeatUnansweredForAnEighthOfTheTimeoutLeavesTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		claim := claimed(t, client)
		time.Sleep(untilSteady)
		id, bad := client.SessionID(), client.newest().Server()
		// A follower that lost its leader still answers pings and reads.
		s.on(func(r stubRequest) verdict {
			if r.server == bad && r.heartbeat() {
				return ignore
			}
			return answer
		})
		sent := len(heartbeats(s))
		time.Sleep(stubTimeout / 3)
		require.Len(t, s.seen(isConnect), 2)
		unanswered, again := heartbeats(s)[sent], s.seen(isConnect)[1]
		require.Equal(t, unanswered.Add(stubTimeout/8), again.at)
		require.NotEqual(t, bad, again.server)
		require.Equal(t, again.at, heartbeats(s)[sent+1], "the next server is asked immediately")
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
		require.Equal(t, id, client.SessionID())
		require.Len(t, s.seen(isConnect), 2)
	})
}

func TestServerThatAnswersNothingButIsConnectedIsLeftInTimeForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		claim := claimed(t, client)
		time.Sleep(untilSteady)
		frozen := client.newest().Server()
		s.on(func(r stubRequest) verdict { // it accepts connections, as a stopped process does
			if r.server == frozen {
				return ignore
			}
			return answer
		})
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
	})
}

// cutAt makes a client hold a claim in steady state, and partitions it when phase of the time
// between two heartbeats has passed.
func cutAt(t *testing.T, phase time.Duration, opts func(*Options)) (s *stub, client *Client, claim *Claim) {
	t.Helper()
	s = newStub(t)
	o := s.options()
	if opts != nil {
		opts(o)
	}
	client = s.connect(t, o)
	time.Sleep(time.Second) // pings and heartbeats are out of step
	claim = claimed(t, client)
	time.Sleep(stubTimeout + phase)
	s.cut()
	return s, client, claim
}

// phases of the time between two heartbeats.
func phases() []time.Duration {
	var all []time.Duration
	for at := time.Millisecond; at < stubTimeout/6; at += stubTimeout / 6 / 16 {
		all = append(all, at)
	}
	return all
}

func TestClaimEndsAtTheDeadlineWhenNothingIsAnswered(t *testing.T) {
	for _, phase := range phases() {
		for name, hangUp := range map[string]bool{"silence": false, "and connections reset": true} {
			bubble(t, func(t *testing.T) {
				var claim *Claim
				traced := false
				s, client, claim := cutAt(t, phase, func(o *Options) {
					o.Trace = &Trace{Lost: func(_, _ string, cause error) {
						traced = true
						if !closed(claim.Done()) {
							t.Error("the trace was called before the holder was notified")
						}
					}}
				})
				if hangUp {
					s.hangUp(0)
				}
				seen := s.seen(func(stubRequest) bool { return true })
				lastHeard := seen[len(seen)-1].at
				deadline := claim.Deadline()
				ctx, cancel := claim.Context(t.Context())
				defer cancel()
				context.AfterFunc(ctx, func() {
					if !closed(claim.Done()) {
						t.Error("the context was cancelled before Done was closed")
					}
				})
				<-claim.Done()
				require.Equal(t, deadline, time.Now(), "%s at %v", name, phase)
				require.Less(t, time.Since(lastHeard), stubTimeout*3/4+time.Millisecond, "T/4 before the ensemble can end the session")
				require.ErrorIs(t, claim.Err(), ErrLost)
				require.ErrorIs(t, claim.Err(), ErrDeadline)
				synctest.Wait()
				require.ErrorIs(t, context.Cause(ctx), ErrDeadline)
				require.True(t, traced)
				require.NoError(t, client.newest().Context().Err(), "the session may well live")
				require.Equal(t, 1, client.OutstandingNodes(), "and so its node is owed")

				s.mend()
				time.Sleep(stubTimeout)
				require.Zero(t, client.OutstandingNodes())
				require.Empty(t, s.queue(), "what a lost claim leaves is taken away")
				require.ErrorIs(t, claim.Err(), ErrDeadline, "once ended it stays ended")
			})
		}
	}
}

func TestErrLooksAtTheClockByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		claim := claimed(t, client)
		s.cut()
		halfway(client.newest()).PassDeadline() // the owner was not scheduled
		require.ErrorIs(t, claim.Err(), ErrDeadline)
		require.True(t, closed(claim.Done()))
		s.mend()
	})
}

func TestCutOfAQuarterTimeoutIsRiddenOut(t *testing.T) {
	for _, phase := range phases() {
		for name, hangUp := range map[string]bool{"silence": false, "and connections reset": true} {
			bubble(t, func(t *testing.T) {
				s, client, claim := cutAt(t, phase, nil)
				if hangUp {
					s.hangUp(0)
				}
				id := client.SessionID()
				time.Sleep(stubTimeout / 4)
				s.mend()
				time.Sleep(2 * stubTimeout)
				require.NoError(t, claim.Err(), "%s at %v", name, phase)
				require.NoError(t, claim.Check(t.Context()))
				require.Equal(t, id, client.SessionID())
			})
		}
	}
}

func TestNodeDeletedByAnOperatorEndsItsClaimAndNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		claim := claimed(t, client)
		queue, err := NewQueue(client, "/other", nil)
		require.NoError(t, err)
		other, err := queue.Claim(t.Context())
		require.NoError(t, err)
		time.Sleep(untilSteady)
		began := time.Now()
		s.delete(claim.Path())
		<-claim.Done()
		require.ErrorIs(t, claim.Err(), ErrDeleted)
		require.LessOrEqual(t, time.Since(began), stubTimeout/6)
		time.Sleep(time.Hour)
		require.NoError(t, other.Err())
		require.Equal(t, 1, client.OutstandingNodes())
	})
}

// One answer names one missing node, and proves nothing about those after it.
func TestOtherNodesAreCheckedImmediatelyWhenOneIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		var claims []*Claim
		for _, path := range []string{"/a", "/b", "/c", "/d"} {
			queue, err := NewQueue(client, path, nil)
			require.NoError(t, err)
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			claims = append(claims, claim)
		}
		time.Sleep(untilSteady)
		for _, claim := range claims[:3] {
			s.delete(claim.Path())
		}
		var ended []time.Time
		for _, claim := range claims[:3] {
			<-claim.Done()
			require.ErrorIs(t, claim.Err(), ErrDeleted)
			ended = append(ended, time.Now())
		}
		require.Equal(t, ended[0], ended[2])
		require.NoError(t, claims[3].Err())
	})
}

func TestHeartbeatOfNothingProvesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		session := s.connect(t, s.options()).newest()
		_ = session.Check(session.Conn(), nil)
		require.Zero(t, session.Deadline(), "an empty transaction is carried out without a look at the session")
	})
}

// A heartbeat and a waiter's own check can both get that answer, one after the other.
func TestEveryCheckOfADeletedNodeReportsTheDeletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		own := client.newest()
		p, _, err := newQueue(t, client, nil).join(t.Context(), own, -1)
		require.NoError(t, err)
		synctest.Wait()
		s.delete(p.Path)
		for range 3 {
			require.ErrorIs(t, own.Check(own.Conn(), []*session.Node{p.Node}), ErrDeleted)
		}
		require.True(t, closed(p.Lost()))
	})
}

func TestHeartbeatsOfManyNodesReachEachInTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", parentMark)
		s.make("/l/another-lock-0000000000", "")
		client := s.connect(t, s.options())
		waiting, cancel := context.WithCancel(t.Context())
		defer cancel()
		queue := newQueue(t, client, nil)
		const waiters = 2*session.MaxChecks + 50
		for range waiters {
			go func() { _, _ = queue.Claim(waiting) }()
		}
		synctest.Wait()
		require.Len(t, s.queue(), 1+waiters)
		time.Sleep(2 * stubTimeout)
		checked := make(map[string]bool)
		for _, r := range s.seen(stubRequest.heartbeat) {
			require.LessOrEqual(t, len(r.ops), session.MaxChecks)
			for _, o := range r.ops {
				checked[o.path] = true
			}
		}
		require.Len(t, checked, waiters)
		cancel()
		time.Sleep(time.Minute)
		require.Zero(t, client.OutstandingNodes())
		require.Len(t, s.queue(), 1)
	})
}

// The owner has nothing to do for T when a session that only waits is
// detached; a claim that is granted then must wake it.
func TestClaimGrantedOnTheHeelsOfACutEndsAtItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		session := client.newest()
		p, alone, err := newQueue(t, client, nil).join(t.Context(), session, -1)
		require.NoError(t, err)
		require.True(t, alone)
		time.Sleep(untilSteady)
		s.cut()
		s.hangUp(0)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		claim, err := session.grant(t.Context(), p)
		require.NoError(t, err, "there is more than T/4 left")
		deadline := claim.Deadline()
		<-claim.Done()
		require.Equal(t, deadline, time.Now())
		s.mend()
	})
}

// The state that a round reads may not yet include the change that woke the owner.
func TestOwnerThatIsAskedWhileItLooksLooksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		half := halfway(s.connect(t, s.options()).newest())
		synctest.Wait()
		next := half.NextLook()
		require.Positive(t, time.Until(next))
		time.Sleep(time.Until(next) - time.Nanosecond)
		half.Halted(func(owner *background.Alarm) {
			time.Sleep(time.Nanosecond)
			for range 1000 {
				runtime.Gosched()
			}
			require.Empty(t, owner.Rings())
			half.WakeWithin(time.Second)
			require.Len(t, owner.Rings(), 1)
		})
		synctest.Wait()
		require.False(t, half.NextLook().After(time.Now().Add(time.Second)))
	})
}

// A heartbeat in the ZooKeeper client's queue as the connection ends fails with the other
// requests in it.
func TestContendersWhoseProofWasGivenBackWaitForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		own := client.newest()
		p, _, err := newQueue(t, client, nil).join(t.Context(), own, -1)
		require.NoError(t, err)
		time.Sleep(untilSteady)
		var answer func() error
		tries := 0
		_, err = session.CallThrough(t.Context(), own.Session, session.Ordinary, func(conn *zk.Conn) (struct{}, error) {
			if tries++; tries > 1 {
				return struct{}{}, nil
			}
			time.AfterFunc(stubTimeout/4, s.mend)
			s.cut()
			s.hangUp(0)
			synctest.Wait()
			answer = halfway(own).SendHeartbeat(p.Node)
			_, _, err := conn.Get("/l")
			return struct{}{}, err
		})
		require.NoError(t, err)
		require.Equal(t, 2, tries, "it was given back")
		require.NoError(t, answer())
	})
}
