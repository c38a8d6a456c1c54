// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/downgrade"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A paused is the grant of a claim whose end is paused before the claim is notified, as if the
// goroutine that ends it were not scheduled.
type paused struct {
	nodes.Ender
	reached chan struct{} // closed when the end begins
	resume  chan struct{}
}

// pauseEnd pauses the end of the claim.
func pauseEnd(t *testing.T, claim *recipes.Claim) paused {
	t.Helper()
	p := paused{held(claim).Ender(), make(chan struct{}), make(chan struct{})}
	require.NoError(t, held(claim).Session().Grant(held(claim).Node(), p, time.Now()))
	return p
}

func (p paused) End(cause error) (report func()) {
	close(p.reached)
	<-p.resume
	return p.Ender.End(cause)
}

// begin runs end on a goroutine until it has begun to end the claim.
func (p paused) begin(end func()) {
	go end()
	<-p.reached
}

// Another goroutine can have detected the loss first, and be about to end the claim.

func TestCommitWhoseCheckIsRefusedNeverReturnsNil(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(*ensemble, *recipes.Claim, paused)
		fail  error
		cause error
	}{
		"session expired": {func(_ *ensemble, claim *recipes.Claim, p paused) {
			p.begin(func() { held(claim).Session().End(session.ErrExpired) })
		}, zktest.ErrSessionExpired, recipes.ErrSessionExpired},
		"node deleted": {func(s *ensemble, claim *recipes.Claim, p paused) {
			s.delete(claim.Path())
			p.begin(func() { held(claim).Session().MarkLost(held(claim).Node()) })
		}, nil, recipes.ErrDeleted},
		"node revoked": {func(s *ensemble, claim *recipes.Claim, p paused) {
			data, err := protocol.Amend([]byte(s.data(claim.Path())), "revoked", &protocol.Revocation{By: "admin"})
			require.NoError(t, err)
			s.set(claim.Path(), string(data))
			p.begin(func() { _, _ = held(claim).Session().MarkOverwritten(held(claim).Node()) })
		}, nil, recipes.ErrRevoked},
		"node overwritten": {func(s *ensemble, claim *recipes.Claim, p paused) {
			s.set(claim.Path(), "theirs")
			p.begin(func() { held(claim).Session().MarkLost(held(claim).Node()) })
		}, nil, recipes.ErrDeleted},
	} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			s.create("/state", "old")
			opts, lost := s.options(), make(chan error, 2)
			opts.Trace = &recipes.Trace{Lost: func(e recipes.QueueEvent) { lost <- e.Err }}
			claim := claimed(t, s.connect(opts))
			time.Sleep(untilSteady)
			p := pauseEnd(t, claim)
			s.Intercept(zktest.Rule{When: isCommit, Fail: c.fail, Before: func(zktest.Request) { c.lose(s, claim, p) }})
			_, err := claim.Commit(t.Context(), setState("new"))
			after := claim.Err()
			close(p.resume)
			require.ErrorIs(t, err, recipes.ErrLost, name)
			require.ErrorIs(t, err, c.cause, name)
			require.ErrorIs(t, after, c.cause, name)
			require.Equal(t, "old", s.data("/state"), name)
			synctest.Wait()
			require.Len(t, lost, 1, name)
			require.ErrorIs(t, <-lost, c.cause, name)
		})
	}
}

func TestCheckAndDowngradeOfMissingClaimReportItsLossAndNeverReturnNil(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *recipes.Claim) error{
		"Check": func(ctx context.Context, claim *recipes.Claim) error { return claim.Check(ctx) }, "Downgrade": downgrade.Claim,
	} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			opts, lost := s.options(), make(chan error, 2)
			opts.Trace = &recipes.Trace{Lost: func(e recipes.QueueEvent) { lost <- e.Err }}
			claim, err := newQueue(t, s.connect(opts), nil).TryAs(t.Context(), protocol.Write)
			require.NoError(t, err)
			time.Sleep(untilSteady)
			p := pauseEnd(t, claim)
			s.delete(claim.Path())
			p.begin(func() { held(claim).Session().MarkLost(held(claim).Node()) })
			err, after := ask(t.Context(), claim), claim.Err()
			close(p.resume)
			require.ErrorIs(t, err, recipes.ErrLost, name)
			require.ErrorIs(t, after, recipes.ErrDeleted, name)
			synctest.Wait()
			require.Len(t, lost, 1, name)
		})
	}
}

// A session that is over ends its claims one by one.
func TestClaimWhoseSessionIsOverIsLostAlsoBeforeItIsItsTurn(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Queue, *recipes.Claim) error{
		"Err":   func(_ context.Context, _ *Queue, claim *recipes.Claim) error { return claim.Err() },
		"Check": func(ctx context.Context, _ *Queue, claim *recipes.Claim) error { return claim.Check(ctx) },
		"Commit": func(ctx context.Context, _ *Queue, claim *recipes.Claim) error {
			_, err := claim.Commit(ctx, setState("new"))
			return err
		},
		"Release": func(ctx context.Context, queue *Queue, claim *recipes.Claim) error { return queue.Release(ctx, claim) },
	} {
		faketime.Test(t, func(t *testing.T) {
			_, _, queue, claim := newHeld(t)
			p := pauseEnd(t, claim)
			p.begin(func() { held(claim).Session().End(session.ErrExpired) })
			err, after := ask(t.Context(), queue, claim), claim.Err()
			close(p.resume)
			require.ErrorIs(t, err, recipes.ErrLost, name)
			require.ErrorIs(t, err, recipes.ErrSessionExpired, name)
			require.ErrorIs(t, after, recipes.ErrSessionExpired, name)
		})
	}
}

func TestErrAndReleaseAfterTheDeadlineNeverReturnNil(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Queue, *recipes.Claim) error{
		"Err":     func(_ context.Context, _ *Queue, claim *recipes.Claim) error { return claim.Err() },
		"Release": func(ctx context.Context, queue *Queue, claim *recipes.Claim) error { return queue.Release(ctx, claim) },
	} {
		faketime.Test(t, func(t *testing.T) {
			s, client, queue, claim := newHeld(t)
			time.Sleep(untilSteady)
			p := pauseEnd(t, claim)
			s.detach()
			<-p.reached // by the session's owner
			err := ask(t.Context(), queue, claim)
			require.True(t, closed(claim.Done()), name)
			close(p.resume)
			s.heal()
			require.ErrorIs(t, err, recipes.ErrLost, name)
			require.ErrorIs(t, err, recipes.ErrDeadline, name)
			time.Sleep(testTimeout / 2)
			require.Empty(t, s.queue(), "%s: its node is to be deleted", name)
			require.Zero(t, client.OutstandingNodes(), name)
		})
	}
}

// A server can serve the session again as soon as the deadline has passed, and the node could
// then be deleted.
func TestNodeStaysForAQuarterTimeoutAfterTheDeadlineUnlessItsHolderReleases(t *testing.T) {
	for name, release := range map[string]bool{"the work may still stop": false, "the work has stopped": true} {
		faketime.Test(t, func(t *testing.T) {
			s, client, queue, claim := newHeld(t)
			result := claiming(t.Context(), newQueue(t, s.connect(withDial(s.options(), s.Dial)), nil))
			time.Sleep(untilSteady)
			id := client.SessionID()
			s.unreachable.Store(true)
			s.link.Reset()
			<-claim.Done()
			notified := time.Now()
			require.ErrorIs(t, claim.Err(), recipes.ErrDeadline)
			s.unreachable.Store(false)
			if release {
				time.Sleep(time.Second)
				require.ErrorIs(t, queue.Release(t.Context(), claim), recipes.ErrDeadline)
			} else {
				time.Sleep(testTimeout/4 - time.Nanosecond)
				require.True(t, newest(client).IsServed(), "it could be deleted")
				require.Contains(t, s.queue(), claim.Path())
				requireWaiting(t, result, "the work may not have stopped yet")
			}
			g := <-result
			require.NoError(t, g.err)
			if release {
				require.Less(t, g.at.Sub(notified), 2*time.Second, name)
			} else {
				require.GreaterOrEqual(t, g.at.Sub(notified), testTimeout/4, name)
				require.Less(t, g.at.Sub(notified), testTimeout/4+time.Second, name)
			}
			require.Equal(t, id, client.SessionID(), name)
			require.Equal(t, []string{g.claim.Path()}, s.queue(), name)
			synctest.Wait() // for the answer to the delete
			require.Zero(t, client.OutstandingNodes(), name)
		})
	}
}

// A blockingParent is a holder's own context, whose methods block on demand.
type blockingParent struct {
	context.Context
	blocks *atomic.Pointer[chan struct{}]
}

func (p blockingParent) Value(key any) any {
	if blocks := p.blocks.Load(); blocks != nil {
		<-*blocks
	}
	return p.Context.Value(key)
}

func TestHolderIsNotifiedAtItsDeadlineThoughTheParentOfAnothersContextBlocks(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		var blocks atomic.Pointer[chan struct{}]
		done, cancel := context.WithCancel(t.Context())
		defer cancel()
		claims := make([]*recipes.Claim, 10)
		contexts := make([]context.Context, len(claims))
		for i := range claims {
			queue, err := New(client, fmt.Sprint("/l", i), nil)
			require.NoError(t, err)
			claims[i], err = queue.Claim(t.Context())
			require.NoError(t, err)
			var parent context.Context = blockingParent{done, &blocks}
			if i == 0 {
				parent = done
			}
			var stop context.CancelFunc
			contexts[i], stop = claims[i].Context(parent)
			defer stop()
		}
		time.Sleep(untilSteady)
		blocked := make(chan struct{})
		blocks.Store(&blocked)
		s.partition()
		for _, c := range claims {
			<-c.Done()
			require.False(t, time.Now().After(c.Deadline()))
		}
		<-contexts[0].Done()
		require.ErrorIs(t, context.Cause(contexts[0]), recipes.ErrDeadline)
		blocks.Store(nil)
		close(blocked)
		for _, ctx := range contexts {
			<-ctx.Done()
		}
		s.heal()
	})
}

func TestCommitIsOneTransactionWithACheckOfTheClaimsNode(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/state", "old")
		client := s.connect(s.options())
		claim := claimed(t, client)
		_, err := claim.Commit(t.Context(), setState("new"))
		require.NoError(t, err)
		require.Equal(t, "new", s.data("/state"))

		s.delete(claim.Path())
		_, err = claim.Commit(t.Context(), setState("stale"))
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorIs(t, err, recipes.ErrDeleted)
		require.Equal(t, "new", s.data("/state"))
	})
}

func TestCommitWhoseReplyIsLostIsUncertain(t *testing.T) {
	for _, v := range []zktest.Direction{zktest.ToClient, zktest.ToServer} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			s.create("/state", "old")
			client := s.connect(s.options())
			claim := claimed(t, client)
			s.Intercept(zktest.Rule{When: isCommit, Lose: v})
			_, err := claim.Commit(t.Context(), setState("new"))
			require.ErrorIs(t, err, recipes.ErrUncertain)
			require.NoError(t, claim.Err())
		})
	}
}

func setState(data string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: "/state", Data: []byte(data), Version: -1}
}
