// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

func halfway(s *queueSession) session.Halfway { return session.Halfway{Session: s.Session} }

// Another goroutine can have learned of the loss first, and be about to report it: these tests
// halt it in between.

func TestCommitWhoseCheckIsRefusedNeverReturnsNil(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(*stub, *Claim) (tell func())
		cause  error
	}{
		"session expired": {func(s *stub, claim *Claim) func() {
			s.expireUnheard(claim.session.ID())
			half := halfway(claim.session)
			half.Over(session.ErrExpired)
			half.Taken()
			return half.Finish
		}, ErrSessionExpired},
		"node deleted": {func(s *stub, claim *Claim) func() {
			s.delete(claim.Path())
			halfway(claim.session).Lost(claim.place.Node)
			return func() { claim.session.MarkGone(claim.place.Node) }
		}, ErrDeleted},
		"node overwritten": {func(s *stub, claim *Claim) func() {
			s.overwrite(claim.Path(), "theirs")
			halfway(claim.session).Lost(claim.place.Node)
			return func() { claim.session.DeleteSoon(claim.place.Node) }
		}, ErrDeleted},
	} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			s.make("/state", "old")
			claim := claimed(t, s.connect(t, s.options()))
			time.Sleep(untilSteady)
			var tell func()
			s.on(func(r stubRequest) verdict {
				if r.op == opMulti && !r.heartbeat() {
					tell = c.refuse(s, claim)
				}
				return answer
			})
			_, err := claim.Commit(t.Context(), setState("new"))
			tell()
			require.ErrorIs(t, err, ErrLost, name)
			require.ErrorIs(t, err, c.cause, name)
			require.ErrorIs(t, claim.Err(), c.cause, name)
			require.Equal(t, "old", string(s.node("/state").data), name)
		})
	}
}

func TestCheckOfAnExpiredOrMissingClaimNeverReturnsNil(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		claim := claimed(t, s.connect(t, s.options()))
		s.delete(claim.Path())
		halfway(claim.session).Lost(claim.place.Node)
		require.ErrorIs(t, claim.Check(t.Context()), ErrLost)
		require.ErrorIs(t, claim.Err(), ErrDeleted)
		claim.session.MarkGone(claim.place.Node)
	})
}

// A session that is over ends its claims one by one.
func TestClaimWhoseSessionIsOverIsLostAlsoBeforeItIsItsTurn(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Queue, *Claim) error{
		"Err":   func(_ context.Context, _ *Queue, claim *Claim) error { return claim.Err() },
		"Check": func(ctx context.Context, _ *Queue, claim *Claim) error { return claim.Check(ctx) },
		"Commit": func(ctx context.Context, _ *Queue, claim *Claim) error {
			_, err := claim.Commit(ctx, setState("new"))
			return err
		},
		"Release": func(ctx context.Context, queue *Queue, claim *Claim) error { return queue.Release(ctx, claim) },
	} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			client := s.connect(t, s.options())
			queue := newQueue(t, client, nil)
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			undo := halfway(claim.session).Over(session.ErrExpired)
			err, after := ask(t.Context(), queue, claim), claim.Err()
			undo()
			claim.session.End(session.ErrExpired)
			require.ErrorIs(t, err, ErrLost, name)
			require.ErrorIs(t, err, ErrSessionExpired, name)
			require.ErrorIs(t, after, ErrSessionExpired, name)
		})
	}
}

func TestErrAndReleaseAfterTheDeadlineNeverReturnNil(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Queue, *Claim) error{
		"Err":     func(_ context.Context, _ *Queue, claim *Claim) error { return claim.Err() },
		"Release": func(ctx context.Context, queue *Queue, claim *Claim) error { return queue.Release(ctx, claim) },
	} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			client := s.connect(t, s.options())
			queue := newQueue(t, client, nil)
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			time.Sleep(untilSteady)
			half := halfway(claim.session)
			half.Taken() // by the owner, which has not ended them yet
			half.PassDeadline()
			err = ask(t.Context(), queue, claim)
			require.ErrorIs(t, err, ErrLost, name)
			require.ErrorIs(t, err, ErrDeadline, name)
			require.True(t, closed(claim.Done()), name)
			time.Sleep(stubTimeout / 2)
			require.Empty(t, s.queue(), "%s: its node is to be deleted", name)
			require.Zero(t, client.OutstandingNodes(), name)
		})
	}
}

// A server can serve the session again as soon as the deadline has passed, and the node could
// then be deleted.
func TestNodeStaysForAQuarterTimeoutAfterTheDeadlineUnlessItsHolderReleases(t *testing.T) {
	for name, release := range map[string]bool{"the work may still stop": false, "the work has stopped": true} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			var unreachable atomic.Bool
			opts := s.options()
			opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if unreachable.Load() {
					return nil, errUnreachable
				}
				return s.dial(ctx, network, address)
			}
			client := s.connect(t, opts)
			queue := newQueue(t, client, nil)
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			result := claiming(t.Context(), newQueue(t, s.connect(t, s.options()), nil))
			time.Sleep(untilSteady)
			id := client.SessionID()
			unreachable.Store(true)
			s.hangUp(id)
			<-claim.Done()
			notified := time.Now()
			require.ErrorIs(t, claim.Err(), ErrDeadline)
			unreachable.Store(false)
			if release {
				time.Sleep(time.Second)
				require.ErrorIs(t, queue.Release(t.Context(), claim), ErrDeadline)
			} else {
				time.Sleep(stubTimeout/4 - time.Nanosecond)
				require.True(t, client.newest().IsServed(), "it could be deleted")
				require.Contains(t, s.queue(), claim.Path())
				requireWaiting(t, result, "the work may not have stopped yet")
			}
			g := <-result
			require.NoError(t, g.err)
			if release {
				require.Less(t, g.at.Sub(notified), 2*time.Second, name)
			} else {
				require.GreaterOrEqual(t, g.at.Sub(notified), stubTimeout/4, name)
				require.Less(t, g.at.Sub(notified), stubTimeout/4+time.Second, name)
			}
			require.Equal(t, id, client.SessionID(), name)
			require.Equal(t, []string{g.claim.Path()}, s.queue(), name)
			synctest.Wait() // for the answer to the delete
			require.Zero(t, client.OutstandingNodes(), name)
		})
	}
}

// A stubbornParent is a holder's own context, whose methods block on demand.
type stubbornParent struct {
	context.Context
	blocks *atomic.Pointer[chan struct{}]
}

func (p stubbornParent) Value(key any) any {
	if blocks := p.blocks.Load(); blocks != nil {
		<-*blocks
	}
	return p.Context.Value(key)
}

func TestHolderIsNotifiedAtItsDeadlineThoughTheParentOfAnothersContextBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		var blocks atomic.Pointer[chan struct{}]
		done, cancel := context.WithCancel(t.Context())
		defer cancel()
		claims := make([]*Claim, 10)
		contexts := make([]context.Context, len(claims))
		for i := range claims {
			queue, err := NewQueue(client, fmt.Sprint("/l", i), nil)
			require.NoError(t, err)
			claims[i], err = queue.Claim(t.Context())
			require.NoError(t, err)
			var parent context.Context = stubbornParent{done, &blocks}
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
		s.cut()
		for _, c := range claims {
			<-c.Done()
			require.False(t, time.Now().After(c.Deadline()))
		}
		<-contexts[0].Done()
		require.ErrorIs(t, context.Cause(contexts[0]), ErrDeadline)
		blocks.Store(nil)
		close(blocked)
		for _, ctx := range contexts {
			<-ctx.Done()
		}
		s.mend()
	})
}
