// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A campaign is a Campaign in a goroutine. The candidate is in the queue when join returns.
type campaign struct {
	stop  context.CancelFunc
	terms chan *election.Term // receives the term, or is closed without one
}

func (s servers) join(c *candidate) campaign {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	began := campaign{stop, make(chan *election.Term, 1)}
	go func() {
		defer close(began.terms)
		if term, err := c.Campaign(ctx); err == nil {
			began.terms <- term
		}
	}()
	synctest.Wait()
	return began
}

// term returns the term of the campaign, which is granted within a minute.
func (s servers) term(c campaign) *election.Term {
	s.Helper()
	select {
	case term := <-c.terms:
		require.NotNil(s, term)
		return term
	case <-time.After(time.Minute):
		require.Fail(s, "no term in a minute")
		panic("unreachable")
	}
}

func TestTargetOfHandOverLeadsNextAndOthersAfterIt(t *testing.T) {
	bubble(t, func(s servers) {
		first := s.lead(s.candidate(election.Options{Owner: "first"}))
		ahead := s.join(s.candidate(election.Options{Owner: "ahead"}))
		second := s.join(s.candidate(election.Options{Owner: "second"}))
		target := s.join(s.candidate(election.Options{Owner: "target"}))
		behind := s.join(s.candidate(election.Options{Owner: "behind"}))

		h, err := first.HandOver(s.Context(), "target")
		require.NoError(s, err)
		require.Equal(s, "target", h.Target.Owner)
		require.NoError(s, first.Err(), "the term lasts until it is resigned")
		require.NoError(s, first.Resign(s.Context()))
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		leader, err := h.Wait(ctx)
		require.NoError(s, err)
		require.Equal(s, h.Target, leader)

		last := first.Token()
		lead := func(term *election.Term) {
			require.Greater(s, term.Token(), last, "terms are granted in the order of their nodes")
			last = term.Token()
			require.NoError(s, term.Resign(s.Context()))
		}
		lead(s.term(target))
		lead(s.term(behind))
		for range 2 { // those that yielded, in the order in which they joined again
			select {
			case term := <-ahead.terms:
				lead(term)
				ahead.terms = nil
			case term := <-second.terms:
				lead(term)
				second.terms = nil
			}
		}
	})
}

func TestRunStopsItsWorkForHandOverAndCampaignsAgain(t *testing.T) {
	bubble(t, func(s servers) {
		var cause error
		terms, queued := 0, make(chan struct{})
		old := s.run(s.candidate(election.Options{Owner: "old"}), func(ctx context.Context, term *election.Term) error {
			if terms++; terms > 1 {
				return untilDone(ctx, term)
			}
			<-queued
			if _, err := term.HandOver(ctx, "new"); err != nil {
				return err
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			require.NoError(s, term.Err(), "the term lasts until the work has returned")
			return cause
		})
		<-old.leads
		ahead := s.run(s.candidate(election.Options{Owner: "ahead"}), untilDone)
		synctest.Wait()
		target := s.run(s.candidate(election.Options{Owner: "new"}), untilDone)
		synctest.Wait()
		close(queued)
		select {
		case <-target.leads:
		case <-time.After(time.Minute):
			s.Fatal("the target does not lead")
		}
		require.ErrorIs(s, cause, election.ErrHandedOver)
		for _, r := range []*background{target, ahead, old} {
			r.stop()
			require.NoError(s, <-r.result)
		}
	})
}

func TestHandOverToNoCandidateNamesItAndChangesNothing(t *testing.T) {
	bubble(t, func(s servers) {
		term := s.lead(s.candidate(election.Options{Owner: "leader"}))
		next := s.join(s.candidate(election.Options{Owner: "next"}))
		for _, id := range []string{"", "nobody", "leader"} {
			_, err := term.HandOver(s.Context(), id)
			require.ErrorIs(s, err, election.ErrNotCandidate)
			require.ErrorContains(s, err, `"`+id+`"`)
			require.ErrorContains(s, err, path)
		}
		_, _, err := s.Get(path + "-handover")
		require.Error(s, err, "no request is stored")
		require.NoError(s, term.Err())
		require.NoError(s, term.Resign(s.Context()))
		_, err = term.HandOver(s.Context(), "next")
		require.ErrorIs(s, err, recipes.ErrReleased)
		require.NoError(s, s.term(next).Resign(s.Context()))
	})
}

func TestHandOverChoosesFirstOfCandidatesWithOneID(t *testing.T) {
	bubble(t, func(s servers) {
		term := s.lead(s.candidate(election.Options{Owner: "twin"}))
		other := s.join(s.candidate(election.Options{Owner: "other"}))
		second := s.join(s.candidate(election.Options{Owner: "twin"}))
		third := s.join(s.candidate(election.Options{Owner: "twin"}))
		_, err := term.HandOver(s.Context(), "twin")
		require.NoError(s, err)
		require.NoError(s, term.Resign(s.Context()))
		for _, next := range []campaign{second, third, other} {
			require.NoError(s, s.term(next).Resign(s.Context()))
		}
	})
}

func TestTargetThatHasLeftIsIgnored(t *testing.T) {
	bubble(t, func(s servers) {
		term := s.lead(s.candidate(election.Options{Owner: "leader"}))
		next := s.join(s.candidate(election.Options{Owner: "next"}))
		behind := s.candidate(election.Options{Owner: "target"})
		target := s.join(behind)
		h, err := term.HandOver(s.Context(), "target")
		require.NoError(s, err)
		target.stop()
		_, left := <-target.terms
		require.False(s, left)
		again := s.join(behind)
		require.NoError(s, term.Resign(s.Context()))
		successor := s.term(next)
		require.Equal(s, "next", successor.Owner(), "the candidate of that ID has another node")
		ctx, cancel := context.WithTimeout(s.Context(), timeout)
		defer cancel()
		leader, err := h.Wait(ctx)
		require.ErrorIs(s, err, election.ErrOtherLeader)
		require.ErrorContains(s, err, `"next"`)
		require.Equal(s, successor.Token(), leader.Token)
		require.NoError(s, successor.Resign(s.Context()))
		require.NoError(s, s.term(again).Resign(s.Context()))
	})
}

// A candidate of another library is ahead of the target and does not yield.
func TestWaitForHandOverNamesCandidateThatDoesNotYield(t *testing.T) {
	bubble(t, func(s servers) {
		term := s.lead(s.candidate(election.Options{Owner: "leader"}))
		require.NoError(s, s.Create(path+"/_c_3f2a-lock-0000000001", []byte("curator")))
		require.NoError(s, s.SetCounter(path, 2))
		target := s.join(s.candidate(election.Options{Owner: "target"}))
		h, err := term.HandOver(s.Context(), "target")
		require.NoError(s, err)
		require.NoError(s, term.Resign(s.Context()))
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		leader, err := h.Wait(ctx)
		require.ErrorIs(s, err, election.ErrOtherLeader)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.Equal(s, "curator", leader.Owner)
		require.NoError(s, s.Delete(path+"/_c_3f2a-lock-0000000001"))
		leader, err = h.Wait(s.Context())
		require.NoError(s, err)
		require.Equal(s, "target", leader.Owner)
		require.NoError(s, s.term(target).Resign(s.Context()))
	})
}

// An operator has deleted the node of the leader, which has not been notified yet.
func TestHandOverOfFormerLeaderIsRejected(t *testing.T) {
	bubble(t, func(s servers) {
		old := s.lead(s.candidate(election.Options{Owner: "old"}))
		next := s.join(s.candidate(election.Options{Owner: "next"}))
		other := s.join(s.candidate(election.Options{Owner: "other"}))
		target := s.join(s.candidate(election.Options{Owner: "target"}))
		require.NoError(s, s.Delete(old.Path()))
		successor := s.term(next)
		// The claim of the former leader is notified by its watch: the request is in flight before.
		_, err := old.HandOver(s.Context(), "target")
		require.ErrorIs(s, err, recipes.ErrLost)
		_, _, err = s.Get(path + "-handover")
		require.Error(s, err, "no request is stored")
		require.NoError(s, successor.Resign(s.Context()))
		s.term(other)
		require.Empty(s, target.terms, "the target does not lead before a candidate ahead of it")
	})
}

// The answers of the request are lost at each frame. The term is handed over, or lasts.
func TestHandOverCutAtAnyFrameIsDoneOrNotDone(t *testing.T) {
	for _, cut := range []func(*zktest.Link, int) *zktest.Trap{(*zktest.Link).LoseRequest, (*zktest.Link).LoseReply} {
		for n := 1; n <= 8; n++ {
			bubble(t, func(s servers) {
				c := s.candidate(election.Options{Owner: "leader"})
				term := s.lead(c)
				ahead := s.join(s.candidate(election.Options{Owner: "ahead"}))
				target := s.join(s.candidate(election.Options{Owner: "target"}))
				trap := cut(c.link, n)
				ctx, cancel := context.WithTimeout(s.Context(), timeout/4)
				defer cancel()
				_, err := term.HandOver(ctx, "target")
				require.NoError(s, err, "it is repeated")
				require.True(s, trap.Sprung() || n > 6, "it sends %d frames", n)
				require.NoError(s, term.Resign(s.Context()))
				require.NoError(s, s.term(target).Resign(s.Context()))
				require.NoError(s, s.term(ahead).Resign(s.Context()))
			})
		}
	}
}

func TestRequestIsNotWrittenOverDataOfAnotherProgram(t *testing.T) {
	bubble(t, func(s servers) {
		require.NoError(s, s.Create(path+"-handover", []byte("10 replicas")))
		term := s.lead(s.candidate(election.Options{Owner: "leader"}))
		next := s.join(s.candidate(election.Options{Owner: "next"}))
		last := s.join(s.candidate(election.Options{Owner: "last"}))
		_, err := term.HandOver(s.Context(), "last")
		require.ErrorContains(s, err, "the node's data is not a hand-over")
		require.NoError(s, term.Resign(s.Context()))
		require.NoError(s, s.term(next).Resign(s.Context()), "the election does not depend on the node")
		require.NoError(s, s.term(last).Resign(s.Context()))
	})
}

func TestWaitForHandOverEndsWithItsContext(t *testing.T) {
	bubble(t, func(s servers) {
		term := s.lead(s.candidate(election.Options{Owner: "leader"}))
		target := s.join(s.candidate(election.Options{Owner: "target"}))
		h, err := term.HandOver(s.Context(), "target")
		require.NoError(s, err)
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(why)
		_, err = h.Wait(ctx)
		require.ErrorIs(s, err, why)
		require.NoError(s, term.Resign(s.Context()))
		require.NoError(s, s.term(target).Resign(s.Context()))
	})
}
