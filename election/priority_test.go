// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestCandidateOfHigherPriorityLeadsFirst(t *testing.T) {
	bubble(t, func(s servers) {
		leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
		low := s.join(s.candidate(election.Options{Owner: "low"}))
		middle := s.join(s.candidate(election.Options{Owner: "middle", Priority: 5}))
		high := s.join(s.candidate(election.Options{Owner: "high", Priority: election.MaxPriority}))
		all, err := s.candidate(election.Options{}).Candidates(s.Context())
		require.NoError(s, err)
		for i, want := range []int{0, 0, 5, election.MaxPriority} {
			require.Equal(s, want, all[i].Priority, "the others see it")
		}
		began := time.Now()
		require.NoError(s, leader.Resign(s.Context()))
		last := leader.Token()
		for i, next := range []campaign{high, low, middle} {
			term := s.term(next)
			require.Zero(s, time.Since(began), "candidates that live are not waited for: %d", i)
			require.Greater(s, term.Token(), last, "terms are granted in the order of their nodes")
			last = term.Token()
			if i == 0 {
				began = began.Add(election.DefaultPriorityWait)
				time.Sleep(election.DefaultPriorityWait) // its term outlasts the wait of those that yielded
			}
			require.NoError(s, term.Resign(s.Context()))
		}
	})
}

// Its session has not expired, and it does not answer. By the end of the priority wait, what proved that the other candidate's session
// lives is too old, and another proof is needed.
func TestDeadCandidateOfHigherPriorityDelaysElectionByPriorityWaitAtMost(t *testing.T) {
	for _, queued := range []time.Duration{0, 3 * timeout} {
		bubble(t, func(s servers) {
			const wait = timeout / 2
			leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
			low := s.join(s.candidate(election.Options{Owner: "low", PriorityWait: wait}))
			dead := s.candidate(election.Options{Owner: "dead", Priority: 1})
			high := s.join(dead)
			time.Sleep(queued)
			dead.link.Hold(zktest.Both)
			began := time.Now()
			require.NoError(s, leader.Resign(s.Context()))
			term := s.term(low)
			require.Equal(s, wait, time.Since(began))
			require.Len(s, s.nodes(), 2, "the session of the dead candidate has not expired")
			require.NoError(s, term.Resign(s.Context()))
			high.stop()
			dead.link.Release()
			<-high.terms
		})
	}
}

func TestCandidateYieldsForTheNextOneIfTheFirstOfHigherPriorityLeavesMeanwhile(t *testing.T) {
	for _, priority := range []int{1, 2} { // of the next one
		bubble(t, func(s servers) { yieldsForTheNext(s, priority) })
	}
}

func yieldsForTheNext(s servers, priority int) {
	leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
	low := s.join(s.candidate(election.Options{Owner: "low", PriorityWait: timeout / 2}))
	dead := s.candidate(election.Options{Owner: "dead", Priority: 1})
	lost := s.join(dead)
	high := s.join(s.candidate(election.Options{Owner: "high", Priority: priority}))
	dead.link.Hold(zktest.Both)
	require.NoError(s, leader.Resign(s.Context()))
	time.Sleep(timeout / 8)
	for _, node := range s.nodes() {
		_, stat, err := s.Get(path + "/" + node)
		require.NoError(s, err)
		if stat.EphemeralOwner == dead.client.SessionID() {
			require.NoError(s, s.Delete(path+"/"+node)) // as when its session expires
		}
	}
	first := s.term(high)
	require.Equal(s, "high", first.Owner())
	require.NoError(s, first.Resign(s.Context()))
	require.NoError(s, s.term(low).Resign(s.Context()))
	lost.stop()
	dead.link.Release()
	<-lost.terms
}

func TestCandidateOfHigherPriorityDoesNotEndTermOfLower(t *testing.T) {
	bubble(t, func(s servers) {
		leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
		high := s.join(s.candidate(election.Options{Owner: "high", Priority: 1}))
		time.Sleep(timeout)
		require.NoError(s, leader.Err())
		require.NoError(s, leader.Resign(s.Context()))
		require.NoError(s, s.term(high).Resign(s.Context()))
	})
}

func TestTargetOfHandOverLeadsBeforeHigherPriority(t *testing.T) {
	bubble(t, func(s servers) {
		leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
		other := s.join(s.candidate(election.Options{Owner: "other"}))
		target := s.join(s.candidate(election.Options{Owner: "target"}))
		high := s.join(s.candidate(election.Options{Owner: "high", Priority: 7}))
		_, err := leader.HandOver(s.Context(), "target")
		require.NoError(s, err)
		require.NoError(s, leader.Resign(s.Context()))
		for _, next := range []campaign{target, high, other} {
			require.NoError(s, s.term(next).Resign(s.Context()))
		}
	})
}

// The candidate of a higher priority leads for a moment, again and again.
func TestCandidateThatYieldedLeadsOncePriorityWaitHasPassed(t *testing.T) {
	bubble(t, func(s servers) {
		leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
		low := s.join(s.candidate(election.Options{Owner: "low"}))
		busy := s.candidate(election.Options{Owner: "high", Priority: 1})
		another := s.candidate(election.Options{Owner: "another", Priority: 1})
		high, next := s.join(busy), s.join(another)
		require.NoError(s, leader.Resign(s.Context()))
		began := time.Now()
		for {
			select {
			case term := <-low.terms:
				require.LessOrEqual(s, time.Since(began), 2*election.DefaultPriorityWait)
				require.NoError(s, term.Resign(s.Context()))
				high.stop()
				next.stop()
				return
			case term := <-high.terms:
				require.Less(s, time.Since(began), time.Minute)
				time.Sleep(300 * time.Millisecond)
				again := s.join(busy)
				require.NoError(s, term.Resign(s.Context()))
				high, next = next, again
				busy, another = another, busy
			}
		}
	})
}

// What a candidate costs that uses neither hand-over nor priorities.
func TestGrantCostsOneReadMoreThanLockOnlyIfAnotherCandidateWaits(t *testing.T) {
	bubble(t, func(s servers) {
		var reads atomic.Int64
		s.Intercept(zktest.Rule{When: func(r zktest.Request) bool {
			if strings.HasPrefix(r.Path, path+"-") {
				reads.Add(1)
			}
			return false
		}})
		leader := s.lead(s.candidate(election.Options{}))
		require.Zero(s, reads.Load(), "the first candidate is alone")
		last := s.join(s.candidate(election.Options{}))
		require.NoError(s, leader.Resign(s.Context()))
		leader = s.term(last)
		require.Zero(s, reads.Load(), "no candidate waits behind it")
		next, last := s.join(s.candidate(election.Options{})), s.join(s.candidate(election.Options{}))
		require.NoError(s, leader.Resign(s.Context()))
		leader = s.term(next)
		require.EqualValues(s, 1, reads.Load())
		require.NoError(s, leader.Resign(s.Context()))
		require.NoError(s, s.term(last).Resign(s.Context()))
		require.EqualValues(s, 1, reads.Load())
	})
}

func TestCandidatesWithPriorityListTheQueueAtTheirJoinAndNotForEachOtherOne(t *testing.T) {
	bubble(t, func(s servers) {
		leader := s.lead(s.candidate(election.Options{Owner: "leader"}))
		const low, high = 4, 12
		for range low {
			s.join(s.candidate(election.Options{}))
		}
		var highs []campaign
		for range high {
			highs = append(highs, s.join(s.candidate(election.Options{Priority: 1})))
		}
		listings := s.Intercept(zktest.Rule{Op: "getChildren"})
		require.NoError(s, leader.Resign(s.Context()))
		for _, c := range highs {
			require.NoError(s, s.term(c).Resign(s.Context()))
		}
		// A few for each term and each candidate that yields, however many wait.
		sent := 0
		for _, c := range listings.Counts() {
			sent += c.Requests
		}
		require.LessOrEqual(s, sent, 5*(low+high))
	})
}
