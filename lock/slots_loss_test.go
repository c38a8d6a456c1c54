// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestNumberIsFreeAQuarterTimeoutAfterItsHoldersDeadline(t *testing.T) {
	bubble(t, func(s servers) {
		a, link := s.slots(1)
		b, _ := s.slots(1)
		slot := s.slot(a)
		waiter := s.slotLater(b)
		link.Hold(zktest.ToServer)
		<-slot.Done()
		link.Release() // the session still lives
		notified := time.Now()
		next := <-waiter
		require.GreaterOrEqual(s, time.Since(notified), timeout/4)
		require.Less(s, time.Since(notified), timeout/2)
		require.Zero(s, next.Number())
		require.Greater(s, next.Token(), slot.Token())
		require.ErrorIs(s, slot.Unlock(s.Context()), recipes.ErrLost)
		s.settle()
		require.Equal(s, []string{"0"}, s.numbers(), "the former holder does not delete the number of the next one")
		require.NoError(s, next.Err())
	})
}

func TestNumberStaysInUseWhenAnOperatorDeletesTheContender(t *testing.T) {
	for _, unlock := range []bool{false, true} {
		bubble(t, func(s servers) {
			a, _ := s.slots(1)
			b, _ := s.slots(1)
			slot := s.slot(a)
			waiter := s.slotLater(b)
			require.NoError(s, s.Delete(slot.Path()))
			<-slot.Done()
			notified := time.Now()
			s.settle()
			require.Empty(s, waiter, "its permit fits, and there is no number")
			if unlock {
				require.ErrorIs(s, slot.Unlock(s.Context()), recipes.ErrDeleted)
			}
			next := <-waiter
			require.Zero(s, next.Number())
			if unlock {
				require.Less(s, time.Since(notified), timeout/8)
			} else {
				require.GreaterOrEqual(s, time.Since(notified), timeout/4)
			}
			require.NoError(s, next.Check(s.Context()))
			require.NoError(s, next.Unlock(s.Context()))
			require.Empty(s, s.numbers())
		})
	}
}

func TestHolderIsNotifiedWhenAnOperatorDeletesItsNumber(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.slots(1)
		b, _ := s.slots(1)
		slot := s.slot(a)
		waiter := s.slotLater(b)
		s.settle()
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		<-slot.Done()
		notified := time.Now()
		require.ErrorIs(s, slot.Err(), recipes.ErrDeleted)
		next := <-waiter
		require.GreaterOrEqual(s, time.Since(notified), timeout/4, "its work has the time to stop")
		require.ErrorIs(s, slot.Unlock(s.Context()), recipes.ErrDeleted)
		s.settle()
		require.NoError(s, next.Err(), "an Unlock after the notification touches no number")
		require.Equal(s, []string{"0"}, s.numbers())
	})
}

func TestHolderThatLostItsNumberDoesNotDeleteTheNextHoldersNumber(t *testing.T) {
	bubble(t, func(s servers) {
		a, link := s.slots(2)
		slot := s.slot(a)
		link.Hold(zktest.ToClient) // the deletion is not reported before the number has another holder
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		require.NoError(s, s.Create(slotsPath+"-limit/0", nil))
		require.NoError(s, slot.Err())
		link.Release()
		<-slot.Done()
		require.ErrorIs(s, slot.Err(), recipes.ErrDeleted)
		time.Sleep(2 * timeout)
		require.Equal(s, []string{"0"}, s.numbers())
		contenders, err := s.Children(slotsPath)
		require.NoError(s, err)
		require.Empty(s, contenders)
	})
}

func TestHolderThatLostBothNodesDoesNotDeleteTheNumberOfAnotherHolderOfItsSession(t *testing.T) {
	bubble(t, func(s servers) {
		slots, _ := s.slots(1)
		slot := s.slot(slots)
		require.NoError(s, s.Delete(slot.Path()))
		<-slot.Done()
		s.settle()
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		next := s.slot(slots)
		time.Sleep(timeout)
		require.NoError(s, next.Check(s.Context()))
		require.Equal(s, []string{"0"}, s.numbers())
	})
}

func TestReleaseOfASlotWhoseNumberIsMissingDeletesItsContender(t *testing.T) {
	bubble(t, func(s servers) {
		a, link := s.slots(1)
		slot := s.slot(a)
		link.Hold(zktest.ToClient)
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		released := make(chan error)
		go func() { released <- slot.Unlock(s.Context()) }()
		synctest.Wait()
		link.Release()
		require.NoError(s, <-released)
		contenders, err := s.Children(slotsPath)
		require.NoError(s, err)
		require.Empty(s, contenders)
	})
}

func TestWaiterForANumberGetsOneOfAHigherLimit(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.slots(1)
		b, _ := s.slots(1)
		slot := s.slot(a)
		waiter := s.slotLater(b)
		require.NoError(s, s.Delete(slot.Path()))
		<-slot.Done()
		s.settle()
		require.Empty(s, waiter)
		require.NoError(s, a.Resize(s.Context(), 2))
		s.settle()
		require.Len(s, waiter, 1)
		require.Equal(s, 1, (<-waiter).Number())
	})
}

func TestAcquireThatIsCancelledDuringItsGrantLosesNoNumber(t *testing.T) {
	for _, side := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
		bubble(t, func(s servers) {
			a, link := s.slots(1)
			b, _ := s.slots(1)
			grant := link.Intercept(zktest.Rule{Op: "create", Below: slotsPath + "-limit", Times: 1, Hold: side})
			ctx, cancel := context.WithTimeout(s.Context(), timeout/16)
			defer cancel()
			time.AfterFunc(timeout/8, grant.Release)
			_, err := a.Acquire(ctx)
			require.ErrorIs(s, err, context.DeadlineExceeded)
			require.Equal(s, 1, grant.Fired())
			time.Sleep(timeout / 2)
			require.Empty(s, s.numbers())
			require.Zero(s, s.slot(b).Number())
		})
	}
}

// requireWholeSlot requires that the slot has its number, keeps it, and leaves none.
func (s servers) requireWholeSlot(slot *lock.Slot) {
	s.Helper()
	require.Equal(s, []string{"0"}, s.numbers())
	s.settle()
	require.NoError(s, slot.Err())
	require.NoError(s, slot.Unlock(s.Context()))
	require.Empty(s, s.numbers())
}

func TestGrantWhoseAnswerIsLostGivesNoNumberThatAnOperatorHasDeleted(t *testing.T) {
	bubble(t, func(s servers) {
		a, link := s.slots(1)
		answer := link.Intercept(zktest.Rule{Op: "create", Below: slotsPath + "-limit", Times: 1, Hold: zktest.ToClient})
		acquired := s.slotLater(a)
		s.settle()
		require.Equal(s, 1, answer.Fired())
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		link.Reset()
		s.requireWholeSlot(<-acquired)
	})
}

// unproved returns a holder of the only slot, and a waiter on the link whose session has no proof that is recent.
func (s servers) unproved() (link *zktest.Link, former *lock.Slot, acquired <-chan *lock.Slot) {
	s.Helper()
	a, link := s.slots(1)
	b, _ := s.slots(1)
	former = s.slot(b)
	acquired = s.slotLater(a)
	time.Sleep(timeout) // a waiter proves nothing
	return link, former, acquired
}

func TestGrantThatAwaitsAProofGivesNoNumberThatAnOperatorHasDeleted(t *testing.T) {
	bubble(t, func(s servers) {
		link, former, acquired := s.unproved()
		link.Intercept(zktest.Rule{Op: "create", Below: slotsPath + "-limit", Times: 1, Lose: zktest.ToClient})
		proofs := link.Intercept(zktest.Rule{Op: "check", Below: slotsPath, Fail: zktest.ErrThrottled})
		reads := link.Intercept(zktest.Rule{Op: "getData", Path: slotsPath + "-limit/0", Fail: zktest.ErrThrottled})
		require.NoError(s, former.Unlock(s.Context()))
		time.Sleep(timeout) // what the answers so far have proved has lapsed
		require.Positive(s, reads.Fired())
		reads.Remove()
		require.Eventually(s, func() bool { return proofs.Fired() > 0 }, timeout, timeout/64)
		require.Empty(s, acquired)
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		s.settle()
		proofs.Remove()
		s.requireWholeSlot(<-acquired)
	})
}

// The proof is answered while the client still finds out what the event of the number means.
func TestGrantThatAwaitsAProofWaitsForWhatAnEventOfItsNumberMeans(t *testing.T) {
	bubble(t, func(s servers) {
		link, former, acquired := s.unproved()
		proofs := link.Intercept(zktest.Rule{Op: "check", Below: slotsPath, Fail: zktest.ErrThrottled})
		granted := link.Intercept(zktest.Rule{Op: "create", Below: slotsPath + "-limit", Times: 1, Delay: timeout / 5})
		require.NoError(s, former.Unlock(s.Context()))
		require.Eventually(s, func() bool { return len(s.numbers()) == 1 }, timeout, timeout/64)
		require.Eventually(s, func() bool { return proofs.Fired() > 0 }, timeout, timeout/64)
		require.Equal(s, 1, granted.Fired())
		require.Empty(s, acquired)
		reads := link.Intercept(zktest.Rule{Op: "getData", Path: slotsPath + "-limit/0", Fail: zktest.ErrThrottled})
		require.NoError(s, s.Delete(slotsPath+"-limit/0"))
		proofs.Remove()
		time.Sleep(timeout)
		require.Positive(s, reads.Fired())
		require.Empty(s, acquired)
		reads.Remove()
		s.requireWholeSlot(<-acquired)
	})
}

func TestSlotsEndWithTheirSession(t *testing.T) {
	bubble(t, func(s servers) {
		a, link := s.slots(2)
		b, _ := s.slots(2)
		first, second := s.slot(a), s.slot(a)
		waiter := s.slotLater(b)
		link.Hold(zktest.ToServer)
		next := <-waiter
		require.Error(s, first.Err())
		require.Error(s, second.Err())
		require.NoError(s, next.Err())
		require.Len(s, s.numbers(), 1)
	})
}

func TestLostRequestsAndRepliesLoseNoNumberAndGiveNoneTwice(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		for lose := 1; ; lose++ {
			sprung := false
			bubble(t, func(s servers) {
				a, link := s.slots(2)
				b, _ := s.slots(2)
				held := newRegister()
				other := s.slot(b)
				require.NoError(s, held.take(other, 2))
				trap := link.LoseReply(lose/2 + 1)
				if lose%2 == 1 {
					trap = link.LoseRequest(lose/2 + 1)
				}
				ctx, cancel := context.WithTimeout(s.Context(), 4*timeout)
				if giveUp {
					ctx, cancel = context.WithTimeout(s.Context(), time.Millisecond)
				}
				slot, err := a.Acquire(ctx)
				if err == nil {
					require.NoError(s, held.take(slot, 2))
					held.giveBack(slot)
					_ = slot.Unlock(s.Context())
				}
				cancel()
				sprung = trap.Sprung()
				next := s.slot(b)
				require.NoError(s, held.take(next, 2))
				time.Sleep(3 * timeout) // what is deleted in the background is
				require.NoError(s, next.Check(s.Context()))
				require.NoError(s, other.Check(s.Context()))
				require.Len(s, s.numbers(), 2)
				require.NoError(s, next.Unlock(s.Context()))
				require.NoError(s, other.Unlock(s.Context()))
				require.Empty(s, s.numbers())
			})
			if !sprung {
				require.Greater(t, lose, 6)
				break
			}
		}
	}
}

func TestReleaseThatIsSentAgainDoesNotDeleteTheNextHoldersNumber(t *testing.T) {
	bubble(t, func(s servers) {
		a, link := s.slots(1)
		b, _ := s.slots(1)
		slot := s.slot(a)
		waiter := s.slotLater(b)
		link.Intercept(zktest.Rule{Op: "delete", Path: slot.Path(), Times: 1, Lose: zktest.ToClient})
		again := link.Intercept(zktest.Rule{Op: "delete", Path: slot.Path(), Before: func(zktest.Request) { <-time.After(timeout / 64) }})
		require.NoError(s, slot.Unlock(s.Context()))
		require.Positive(s, again.Fired())
		next := <-waiter
		s.settle()
		require.NoError(s, next.Check(s.Context()))
		require.Equal(s, []string{"0"}, s.numbers())
	})
}
