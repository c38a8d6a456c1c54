// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const slotsPath = "/locks/slots"

// slots returns the slots at slotsPath for a new client, and the client's link.
func (s servers) slots(limit int) (*lock.Slots, *zktest.Link) {
	s.Helper()
	client, link := s.client()
	slots, err := lock.NewSlots(client, slotsPath, limit, nil)
	require.NoError(s, err)
	return slots, link
}

func (s servers) slot(slots *lock.Slots) *lock.Slot {
	s.Helper()
	slot, err := slots.Acquire(s.Context())
	require.NoError(s, err)
	return slot
}

// slotLater acquires in the background, and returns when the call waits or has its slot.
func (s servers) slotLater(slots *lock.Slots) <-chan *lock.Slot {
	got := make(chan *lock.Slot, 1)
	go func() {
		slot, err := slots.Acquire(s.Context())
		if err != nil && s.Context().Err() == nil {
			s.Errorf("acquire: %v", err)
		}
		got <- slot
	}()
	s.settle()
	return got
}

// numbers returns the numbers whose nodes exist.
func (s servers) numbers() []string {
	s.Helper()
	names, err := s.Children(slotsPath + "-limit")
	require.NoError(s, err)
	return names
}

// A register records who holds each number, and the highest token that it has seen for each.
type register struct {
	mu     sync.Mutex // guards what follows
	holder map[int]*lock.Slot
	token  map[int]fencing.Token
	most   int
}

func newRegister() *register {
	return &register{holder: make(map[int]*lock.Slot), token: make(map[int]fencing.Token)}
}

// take records a grant. Its error names the promise that the grant breaks.
func (r *register) take(slot *lock.Slot, limit int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := slot.Number()
	switch before := r.holder[n]; {
	case n < 0 || n >= limit:
		return fmt.Errorf("number %d, with a limit of %d", n, limit)
	case slot.Token() <= r.token[n]:
		return fmt.Errorf("number %d: token %v after %v", n, slot.Token(), r.token[n])
	case before != nil && before.Err() == nil:
		return fmt.Errorf("number %d has two holders", n)
	}
	r.holder[n], r.token[n] = slot, slot.Token()
	r.most = max(r.most, n+1)
	return nil
}

func (r *register) giveBack(slot *lock.Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder[slot.Number()] == slot {
		delete(r.holder, slot.Number())
	}
}

func TestNoTwoOpenSlotsHaveTheSameNumber(t *testing.T) {
	bubble(t, func(s servers) {
		const limit = 4
		held := newRegister()
		var all sync.WaitGroup
		for range 4 {
			slots, _ := s.slots(limit)
			for range 5 {
				all.Go(func() {
					for range 20 {
						err := slots.Do(s.Context(), func(_ context.Context, slot *lock.Slot) error {
							err := held.take(slot, limit)
							time.Sleep(time.Duration(rand.N(3)) * time.Millisecond)
							held.giveBack(slot)
							return err
						})
						if err != nil {
							s.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		require.Equal(s, limit, held.most, "all numbers are used")
		require.Empty(s, s.numbers())
	})
}

func TestSlotHasTheSmallestFreeNumberAndATokenThatOrdersItsHolders(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.slots(3)
		b, _ := s.slots(3)
		first, second, third := s.slot(a), s.slot(b), s.slot(a)
		require.Equal(s, []int{0, 1, 2}, []int{first.Number(), second.Number(), third.Number()})
		require.False(s, first.Shared(), "its token orders the holders of the number")
		waiter := s.slotLater(b)
		require.NoError(s, second.Unlock(s.Context()))
		next := <-waiter
		require.Equal(s, 1, next.Number())
		require.Greater(s, next.Token(), second.Token())
		require.Greater(s, next.Token(), third.Token())
		require.NoError(s, first.Unlock(s.Context()))
		require.Equal(s, 0, s.slot(b).Number())
	})
}

func TestHoldersOfSlotsAreListedByNumber(t *testing.T) {
	bubble(t, func(s servers) {
		slots, _ := s.slots(3)
		held := []*lock.Slot{s.slot(slots), s.slot(slots)}
		occupants, err := slots.Holders(s.Context())
		require.NoError(s, err)
		require.Len(s, occupants, 2)
		for i, o := range occupants {
			require.Equal(s, i, o.Number)
			require.Equal(s, held[i].Token(), o.Holder.Token)
			require.True(s, o.Holder.Held)
		}
	})
}

func TestTryAcquireOfSlotsCreatesNothingIfNoneIsFree(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.slots(2)
		b, _ := s.slots(2)
		first, err := a.TryAcquire(s.Context())
		require.NoError(s, err)
		second, err := b.TryAcquire(s.Context())
		require.NoError(s, err)
		require.Equal(s, []int{0, 1}, []int{first.Number(), second.Number()})
		_, err = b.TryAcquire(s.Context())
		held := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &held)
		require.Equal(s, first.Token(), held.Holder.Token)
		contenders, err := s.Children(slotsPath)
		require.NoError(s, err)
		require.Len(s, contenders, 2)
		require.NoError(s, first.Unlock(s.Context()))
		again, err := b.TryAcquire(s.Context())
		require.NoError(s, err)
		require.Zero(s, again.Number())
	})
}

// The holder does not call Unlock: its work may take T/4 to stop.
// Another session can be granted the number while the contender of its former holder still exists.
// The grant is carried out before or after the caller gives up, on a connection that goes on.
func TestContendersThatAcquireTogetherChooseDifferentNumbers(t *testing.T) {
	bubble(t, func(s servers) {
		const together = 40
		var clients []*lock.Slots
		for range together {
			slots, link := s.slots(together)
			link.Delay(time.Millisecond)
			clients = append(clients, slots)
		}
		grants := s.Intercept(zktest.Rule{Op: "create", Below: slotsPath + "-limit"})
		var all sync.WaitGroup
		for _, slots := range clients {
			all.Go(func() {
				if _, err := slots.Acquire(s.Context()); err != nil {
					s.Error(err)
				}
			})
		}
		all.Wait()
		require.Len(s, s.numbers(), together)
		s.Logf("%d contenders sent %d grants", together, grants.Fired())
		require.Less(s, grants.Fired(), 2*together)
	})
}

// Whatever is lost of the requests of an acquisition and of a release, and if the caller gives up, no number is lost and none is
// given twice.
// The reply to a release is lost, and the next contender has the number before the release is sent again.
func TestLimitIsNotLoweredWhileARemovedNumberIsInUse(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.slots(3)
		b, _ := s.slots(3)
		first, second := s.slot(a), s.slot(b)
		third := s.slot(b)
		require.NoError(s, first.Unlock(s.Context()))
		require.NoError(s, second.Unlock(s.Context()))
		err := a.Resize(s.Context(), 2)
		held := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &held)
		require.Equal(s, third.Token(), held.Holder.Token)
		require.ErrorContains(s, err, "slot")
		limit, err := a.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 3, limit)

		require.NoError(s, third.Unlock(s.Context()))
		require.NoError(s, a.Resize(s.Context(), 2))
		require.Equal(s, []int{0, 1}, []int{s.slot(b).Number(), s.slot(a).Number()})
		waiter := s.slotLater(b)
		require.Empty(s, waiter)
		require.NoError(s, a.Resize(s.Context(), 3))
		require.Equal(s, 2, (<-waiter).Number())
	})
}

func TestLimitIsLoweredByThousandsOfNumbers(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		path := "/" + strings.Repeat("n", 500)
		slots, err := lock.NewSlots(client, path, lock.MaxSlots, nil)
		require.NoError(s, err)
		slot := s.slot(slots)
		require.NoError(s, slots.Resize(s.Context(), 1))
		limit, err := slots.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 1, limit)
		require.NoError(s, slot.Unlock(s.Context()))
	})
}

func TestSlotsAndASemaphoreCannotHaveTheSamePath(t *testing.T) {
	bubble(t, func(s servers) {
		slots, _ := s.slots(2)
		s.slot(slots)
		client, _ := s.client()
		semaphore, err := lock.NewSemaphore(client, slotsPath, 2, nil)
		require.NoError(s, err)
		_, err = semaphore.TryAcquire(s.Context(), 1)
		require.ErrorContains(s, err, "a semaphore and slots cannot have the same path")
		for _, limit := range []int{-1, lock.MaxSlots + 1} {
			_, err := lock.NewSlots(client, slotsPath, limit, nil)
			require.ErrorContains(s, err, fmt.Sprintf("limit of %d slots: must be 1 to 4096", limit))
			require.ErrorContains(s, slots.Resize(s.Context(), limit), fmt.Sprintf("limit of %d slots: must be 1 to 4096", limit))
		}
	})
}

func TestSlotsWithoutALimitFollowTheStoredOne(t *testing.T) {
	bubble(t, func(s servers) {
		follower, _ := s.slots(0)
		_, err := follower.Acquire(s.Context())
		require.ErrorIs(s, err, lock.ErrNoLimit)
		slots, _ := s.slots(2)
		s.slot(slots)
		require.Equal(s, 1, s.slot(follower).Number())
	})
}

// All holders of 200 sessions lose their slots at the same time, while as many more wait.
func TestNumbersAreGrantedAgainAfterAStormOfExpiries(t *testing.T) {
	bubble(t, func(s servers) {
		const limit, sessions, perSession = 64, 16, 8
		held := newRegister()
		ctx, cancel := context.WithCancel(s.Context())
		var all sync.WaitGroup
		var links []*zktest.Link
		for range sessions {
			slots, link := s.slots(limit)
			links = append(links, link)
			for range perSession {
				all.Go(func() {
					for ctx.Err() == nil {
						slot, err := slots.Acquire(ctx)
						if err != nil {
							continue
						}
						if err := held.take(slot, limit); err != nil {
							s.Error(err)
						}
						select {
						case <-slot.Done():
						case <-ctx.Done():
						}
						held.giveBack(slot)
						_ = slot.Unlock(context.WithoutCancel(ctx))
					}
				})
			}
		}
		counted := s.Intercept(zktest.Rule{})
		for round := range 3 {
			time.Sleep(timeout)
			synctest.Wait()
			require.Len(s, s.numbers(), limit)
			before := counted.Fired()
			for i, link := range links {
				if i%2 == round%2 {
					link.Hold(zktest.ToServer)
				}
			}
			time.Sleep(2 * timeout) // the sessions have expired
			synctest.Wait()
			for _, link := range links {
				link.Release()
			}
			names := s.numbers()
			require.Len(s, names, limit)
			for _, name := range names {
				number, err := strconv.Atoi(name)
				require.NoError(s, err)
				require.Less(s, number, limit)
			}
			s.Logf("%d requests for %d contenders of which half expired", counted.Fired()-before, sessions*perSession)
		}
		cancel()
		all.Wait()
	})
}

func TestUncontendedSlotCostsFourRequests(t *testing.T) {
	bubble(t, func(s servers) {
		slots, _ := s.slots(3)
		require.NoError(s, s.slot(slots).Unlock(s.Context())) // the path is known from here on
		s.settle()
		counted := s.Intercept(zktest.Rule{Below: "/locks", When: func(r zktest.Request) bool {
			return len(r.Ops) != 1 || r.Ops[0].Op != "check" // heartbeats
		}})
		slot := s.slot(slots)
		s.settle()
		require.Equal(s, 3, counted.Fired(), "a join, a grant, and a watch of the number")
		require.NoError(s, slot.Unlock(s.Context()))
		s.settle()
		require.Equal(s, 4, counted.Fired())
	})
}

func TestForeignNodesBesideTheNumbersTakeNone(t *testing.T) {
	bubble(t, func(s servers) {
		slots, _ := s.slots(2)
		_, err := slots.Limit(s.Context()) // stores it
		require.NoError(s, err)
		for _, name := range []string{"00", "+0", "-0", "01", "notes"} {
			require.NoError(s, s.Create(slotsPath+"-limit/"+name, nil))
		}
		require.ElementsMatch(s, []int{0, 1}, []int{s.slot(slots).Number(), s.slot(slots).Number()})
		occupants, err := slots.Holders(s.Context())
		require.NoError(s, err)
		require.Len(s, occupants, 2)
	})
}
