// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/tuning"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// untilSteady is long enough for a deadline to follow from heartbeats alone.
const untilSteady = testTimeout + 100*time.Millisecond

func TestHeartbeatsEverySixthOfTheTimeout(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		time.Sleep(testTimeout / 5)
		require.Empty(t, s.heartbeats(), "who holds nothing sends none")
		began := time.Now()
		claim := claimed(t, client)
		time.Sleep(time.Minute + time.Millisecond)
		sent := s.heartbeats()
		require.Equal(t, began, sent[0].at, "the first is sent immediately after the join")
		young := sent[:5] // the silence before the join counts until a proof T/4 later is answered
		for i := range young {
			require.Equal(t, began.Add(time.Duration(i)*testTimeout/12), young[i].at)
		}
		steady := sent[4:]
		for i := range steady {
			require.Equal(t, young[4].at.Add(time.Duration(i)*testTimeout/6), steady[i].at)
		}
		require.Len(t, steady, 1+int((time.Minute-testTimeout/3)/(testTimeout/6)))
		require.Equal(t, claim.Path(), sent[0].Path)

		require.NoError(t, newQueue(t, client, nil).Release(t.Context(), claim))
		before := len(s.heartbeats())
		time.Sleep(time.Hour)
		require.Len(t, s.heartbeats(), before, "who holds nothing sends none")
	})
}

func TestHeartbeatsOfATunedClientFollowItsOption(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		ctx := tuning.With(t.Context(), tuning.Tuning{Heartbeat: testTimeout / 4})
		client, err := recipes.Connect(ctx, s.Addrs()[:1], s.options())
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		claim := claimed(t, client)
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
		beats := s.heartbeats()
		require.Greater(t, len(beats), 1000)
		for i, r := range beats[1:] {
			require.Equal(t, testTimeout/4, r.at.Sub(beats[i].at))
		}
	})
}

func TestSessionsThatOnlyWaitSendThreeSyncsInTheTimeoutAndWriteNothing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, s.heartbeats())
		syncs := s.seen(func(r zktest.Request) bool { return r.Op == "sync" })
		require.InDelta(t, 3*time.Minute/testTimeout, len(syncs), 1)
		for i := 1; i < len(syncs); i++ {
			require.InDelta(t, testTimeout/3, syncs[i].at.Sub(syncs[i-1].at), float64(testTimeout/24), "they are evenly spaced")
		}
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestSteadyDeadlineIsSevenTwelfthsOfTheTimeoutAfterTheLastHeartbeat(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		claim := claimed(t, s.connect(s.options()))
		for range 100 {
			time.Sleep(untilSteady + time.Second/3)
			sent := s.heartbeats()
			after := claim.Deadline().Sub(sent[len(sent)-1].at)
			require.GreaterOrEqual(t, after, testTimeout*7/12)
			require.LessOrEqual(t, after, testTimeout*3/4)
		}
	})
}

func TestHeartbeatUnansweredForFiveTwentyFourthsOfTheTimeoutLeavesTheServer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client, err := recipes.Connect(t.Context(), s.Addrs()[1:], s.options())
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		claim := claimed(t, client)
		time.Sleep(untilSteady)
		id, bad := client.SessionID(), newest(client).Server()
		require.NoError(t, s.Server(1+slices.Index(s.Addrs(), bad)).Isolate(context.Background())) // it still answers pings and reads
		sent := len(s.heartbeats())
		time.Sleep(testTimeout * 5 / 12)
		require.Len(t, s.seen(isOp("connect")), 2)
		unanswered, again := s.heartbeats()[sent], s.seen(isOp("connect"))[1]
		require.Equal(t, unanswered.at.Add(testTimeout*5/24), again.at)
		require.NotEqual(t, bad, s.Server(again.Server).Addr())
		require.Equal(t, unanswered.at.Add(testTimeout/6), s.heartbeats()[sent+1].at, "the schedule does not depend on the answers")
		require.Equal(t, again.at, s.heartbeats()[sent+2].at, "the next server is asked immediately")
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
		require.Equal(t, id, client.SessionID())
		require.Len(t, s.seen(isOp("connect")), 2)
	})
}

func TestServerThatAnswersNothingButIsConnectedIsLeftInTimeForTheNext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		time.Sleep(untilSteady)
		frozen := newest(client).Server()
		// It accepts connections, as a stopped process does.
		s.Intercept(zktest.Rule{Hold: zktest.ToServer, When: func(r zktest.Request) bool { return s.Server(r.Server).Addr() == frozen }})
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
	})
}

// partitionedAt makes a client hold a claim in steady state, and partitions it when phase of the time
// between two heartbeats has passed.
func partitionedAt(t *testing.T, phase time.Duration, opts func(*recipes.Options)) (s *ensemble, client *recipes.Client, claim *recipes.Claim) {
	t.Helper()
	s = newEnsemble(t)
	o := s.options()
	if opts != nil {
		opts(o)
	}
	client = s.connect(o)
	time.Sleep(time.Second) // pings and heartbeats are out of step
	claim = claimed(t, client)
	time.Sleep(testTimeout + phase)
	s.partition()
	return s, client, claim
}

// phases of the time between two heartbeats.
func phases() []time.Duration {
	var all []time.Duration
	for at := time.Millisecond; at < testTimeout/6; at += testTimeout / 6 / 16 {
		all = append(all, at)
	}
	return all
}

func TestClaimEndsAtTheDeadlineWhenNothingIsAnswered(t *testing.T) {
	for _, phase := range phases() {
		for name, reset := range map[string]bool{"silence": false, "and connections reset": true} {
			faketime.Test(t, func(t *testing.T) {
				var claim *recipes.Claim
				traced := false
				s, client, claim := partitionedAt(t, phase, func(o *recipes.Options) {
					o.Trace = &recipes.Trace{Lost: func(recipes.QueueEvent) {
						traced = true
						if !closed(claim.Done()) {
							t.Error("the trace was called before the holder was notified")
						}
					}}
				})
				if reset {
					s.link.Reset()
				}
				seen := s.seen(anyRequest)
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
				require.Less(t, time.Since(lastHeard), testTimeout*3/4+time.Millisecond, "T/4 before the ensemble can end the session")
				require.ErrorIs(t, claim.Err(), recipes.ErrLost)
				require.ErrorIs(t, claim.Err(), recipes.ErrDeadline)
				synctest.Wait()
				require.ErrorIs(t, context.Cause(ctx), recipes.ErrDeadline)
				require.True(t, traced)
				require.NoError(t, newest(client).Context().Err(), "the session may well live")
				require.Equal(t, 1, client.OutstandingNodes(), "and so its node is still to be deleted")

				s.heal()
				time.Sleep(testTimeout)
				require.Zero(t, client.OutstandingNodes())
				require.Empty(t, s.queue(), "what a lost claim leaves is taken away")
				require.ErrorIs(t, claim.Err(), recipes.ErrDeadline, "once ended it stays ended")
			})
		}
	}
}

func TestPartitionOfAQuarterTimeoutCostsNoClaim(t *testing.T) {
	for _, phase := range phases() {
		for name, reset := range map[string]bool{"silence": false, "and connections reset": true} {
			faketime.Test(t, func(t *testing.T) {
				s, client, claim := partitionedAt(t, phase, nil)
				if reset {
					s.link.Reset()
				}
				id := client.SessionID()
				time.Sleep(testTimeout / 4)
				s.heal()
				time.Sleep(2 * testTimeout)
				require.NoError(t, claim.Err(), "%s at %v", name, phase)
				require.NoError(t, claim.Check(t.Context()))
				require.Equal(t, id, client.SessionID())
			})
		}
	}
}

func TestNodeDeletedByAnOperatorEndsItsClaimAndNoOther(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		queue, err := New(client, "/other", nil)
		require.NoError(t, err)
		other, err := queue.Claim(t.Context())
		require.NoError(t, err)
		time.Sleep(untilSteady)
		began := time.Now()
		s.delete(claim.Path())
		<-claim.Done()
		require.ErrorIs(t, claim.Err(), recipes.ErrDeleted)
		require.LessOrEqual(t, time.Since(began), testTimeout/6)
		time.Sleep(time.Hour)
		require.NoError(t, other.Err())
		require.Equal(t, 1, client.OutstandingNodes())
	})
}

// One answer names one missing node, and proves nothing about those after it.
func TestOtherNodesAreCheckedImmediatelyWhenOneIsMissing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		var claims []*recipes.Claim
		for _, path := range []string{"/a", "/b", "/c", "/d"} {
			queue, err := New(client, path, nil)
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
			require.ErrorIs(t, claim.Err(), recipes.ErrDeleted)
			ended = append(ended, time.Now())
		}
		require.Equal(t, ended[0], ended[2])
		require.NoError(t, claims[3].Err())
	})
}

func TestHeartbeatOfNothingProvesNothing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		session := newest(s.connect(s.options()))
		_ = session.Check(session.Conn(), nil)
		require.Zero(t, session.Deadline(), "an empty transaction is carried out without a look at the session")
	})
}

// A heartbeat and a waiter's own check can both get that answer, one after the other.
func TestEveryCheckOfADeletedNodeReportsTheDeletion(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		own := newest(client)
		q := newQueue(t, client, nil)
		p, _, err := q.Join(t.Context(), own, q.SessionEntry(own, protocol.Exclusive), -1)
		require.NoError(t, err)
		synctest.Wait()
		s.delete(p.Path)
		for range 3 {
			require.ErrorIs(t, own.Check(own.Conn(), []*nodes.Node{p.Node}), recipes.ErrDeleted)
		}
		require.True(t, closed(p.Lost()))
	})
}

func TestHeartbeatsOfManyNodesReachEachInTurn(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		const claims = 2*nodes.MaxChecks + 50
		for i := range claims {
			queue, err := New(client, fmt.Sprintf("/l%d", i), nil)
			require.NoError(t, err)
			_, err = queue.Claim(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(2 * testTimeout)
		checked := make(map[string]bool)
		for _, r := range s.heartbeats() {
			require.LessOrEqual(t, len(r.Ops), nodes.MaxChecks)
			for _, op := range r.Ops {
				checked[op.Path] = true
			}
		}
		require.Len(t, checked, claims)
	})
}

// The owner has nothing to do for T when a session that only waits is
// detached; a claim that is granted then must wake it.
func TestClaimGrantedJustAfterDetachmentEndsAtItsDeadline(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		session := newest(client)
		q := newQueue(t, client, nil)
		p, alone, err := q.Join(t.Context(), session, q.SessionEntry(session, protocol.Exclusive), -1)
		require.NoError(t, err)
		require.True(t, alone)
		time.Sleep(testTimeout / 24)
		s.detach()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		claim, err := q.Grant(t.Context(), session, p)
		require.NoError(t, err, "there is more than T/4 left")
		deadline := claim.Deadline()
		<-claim.Done()
		require.Equal(t, deadline, time.Now())
		s.heal()
	})
}

// Another goroutine has found the deadline passed before the proof, and ends grants after it.
func TestClaimIsKeptWhoseGrantOvertakesTheEndOfAnOlderDeadline(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		require.ErrorIs(t, newest(client).EndOfGrants(claim.Deadline()), recipes.ErrDeadline, "by the clock that it has read")
		require.NoError(t, claim.Err())
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
	})
}
