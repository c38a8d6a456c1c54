// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
)

// queuedRecipes are the rows of the table of recipes with waiters. The rows of the other table are
// measured by the functions that measuredCosts calls.
var queuedRecipes = []queued{
	{name: "`Mutex`", of: takeMutex},
	{name: "`Mutex`, re-entrant", of: takeReentrant},
	{name: "`Mutex`, nested in its hold", of: takeNested, alone: true},
	{name: "`Mutex` with `LockDelay` and `Fence`", of: takeFenced},
	{name: "`RWMutex`, writers", of: takeWriter},
	{name: "`RWMutex`, readers behind a writer", of: takeReader, first: takeWriter},
	{name: "`Semaphore` of 3, one permit each", of: takePermits(1), first: takePermits(3)},
	{name: "`Slots`, three", of: takeSlot, first: takeSlots},
	{name: "`All`, two locks", of: takeAll},
	{name: "`Election`", of: takeTerm},
	{name: "lease, of one replica", of: takeLeaseOfOne, untraced: "lease-of-one"},
	{name: "lease, of a replica each", of: takeLeaseOfEach, untraced: "lease-of-each"},
}

func takeMutex(s *costs, c *costClient) taking { return takeWith(s.Mutex(c.Client, "mutex")) }

// takeFenced takes a lock after holders that have released it: it neither waits nor calls Fence.
func takeFenced(s *costs, c *costClient) taking {
	mu, err := lock.New(c.Client, s.Path("fenced"), &lock.Options{
		LockDelay: time.Second,
		Fence:     func(context.Context, recipes.FormerHolder) error { return errors.New("fenced a holder that released") },
	})
	require.NoError(s.T, err)
	return takeWith(mu)
}

func takeWith(mu *lock.Mutex) taking {
	return func(ctx context.Context) (func(context.Context) error, error) {
		hold, err := mu.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
}

func (s *costs) reentrant(c *costClient, name string) *lock.Mutex {
	s.T.Helper()
	mu, err := lock.New(c.Client, s.Path(name), &lock.Options{Reentrant: true})
	require.NoError(s.T, err)
	return mu
}

func takeReentrant(s *costs, c *costClient) taking { return takeWith(s.reentrant(c, "reentrant")) }

// takeNested takes the lock under a hold of the same client.
func takeNested(s *costs, c *costClient) taking {
	mu := s.reentrant(c, "nested-"+fmt.Sprint(c.SessionID()))
	outer := s.Lock(mu)
	ctx, cancel := outer.Context(s.Ctx)
	s.T.Cleanup(func() {
		cancel()
		require.NoError(s.T, outer.Unlock(context.Background()))
	})
	return func(context.Context) (func(context.Context) error, error) { return takeWith(mu)(ctx) }
}

func (s *costs) readWrite(c *costClient) *lock.RWMutex {
	s.T.Helper()
	mu, err := lock.NewRW(c.Client, s.Path("read-write"), nil)
	require.NoError(s.T, err)
	return mu
}

func takeWriter(s *costs, c *costClient) taking {
	mu := s.readWrite(c)
	return func(ctx context.Context) (func(context.Context) error, error) {
		hold, err := mu.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
}

func takeReader(s *costs, c *costClient) taking {
	mu := s.readWrite(c)
	return func(ctx context.Context) (func(context.Context) error, error) {
		hold, err := mu.RLock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
}

func takePermits(weight int) func(s *costs, c *costClient) taking {
	return func(s *costs, c *costClient) taking {
		sem, err := lock.NewSemaphore(c.Client, s.Path("semaphore"), 3, nil)
		require.NoError(s.T, err)
		return func(ctx context.Context) (func(context.Context) error, error) {
			hold, err := sem.Acquire(ctx, weight)
			if err != nil {
				return nil, err
			}
			return hold.Release, nil
		}
	}
}

func slotsOf(s *costs, c *costClient) *lock.Slots {
	slots, err := lock.NewSlots(c.Client, s.Path("slots"), 3, nil)
	require.NoError(s.T, err)
	return slots
}

func takeSlot(s *costs, c *costClient) taking {
	slots := slotsOf(s, c)
	return func(ctx context.Context) (func(context.Context) error, error) {
		slot, err := slots.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return slot.Unlock, nil
	}
}

// takeSlots takes all slots.
func takeSlots(s *costs, c *costClient) taking {
	slots := slotsOf(s, c)
	return func(ctx context.Context) (func(context.Context) error, error) {
		var held []*lock.Slot
		release := func(ctx context.Context) error {
			var errs []error
			for _, slot := range held {
				errs = append(errs, slot.Unlock(ctx))
			}
			return errors.Join(errs...)
		}
		for range 3 {
			slot, err := slots.Acquire(ctx)
			if err != nil {
				return nil, errors.Join(err, release(ctx))
			}
			held = append(held, slot)
		}
		return release, nil
	}
}

func takeAll(s *costs, c *costClient) taking {
	both, err := lock.All(s.Mutex(c.Client, "one-of-two"), s.Mutex(c.Client, "two-of-two"))
	require.NoError(s.T, err)
	return func(ctx context.Context) (func(context.Context) error, error) {
		hold, err := both.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
}

func takeTerm(s *costs, c *costClient) taking {
	e := s.Election(c.Client, "election", fmt.Sprint(c.SessionID()))
	return func(ctx context.Context) (func(context.Context) error, error) {
		term, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return term.Resign, nil
	}
}

func (s *costs) leaseReplica(c *costClient) *lease.Replica {
	s.T.Helper()
	r, err := lease.New(c.Client, &lease.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s.T, err)
	s.T.Cleanup(r.Close)
	return r
}

func takeLeaseOfOne(s *costs, c *costClient) taking {
	if s.replica == nil {
		s.replica = s.leaseReplica(s.clients[0])
	}
	return s.takeLease(s.replica, "lease-of-one", fmt.Sprint(c.SessionID()))
}

func takeLeaseOfEach(s *costs, c *costClient) taking {
	return s.takeLease(s.leaseReplica(c), "lease-of-each", fmt.Sprint(c.SessionID()))
}

// takeLease is a caller of a lock service, which polls until it is granted the lease.
func (s *costs) takeLease(r *lease.Replica, name, owner string) taking {
	var calls atomic.Int64
	return func(ctx context.Context) (func(context.Context) error, error) {
		request := lease.Request{
			Path: s.Path(name), Principal: "p", Owner: owner,
			RequestID: fmt.Sprint(owner, "-", calls.Add(1)), TTL: 5 * time.Minute, Wait: time.Hour,
		}
		for {
			g, err := r.Acquire(ctx, time.Now(), request)
			switch {
			case errors.As(err, new(*lease.WaitingError)):
				continue
			case err != nil:
				return nil, err
			}
			return func(ctx context.Context) error { return r.Release(ctx, g.Ticket) }, nil
		}
	}
}

// groupCosts returns what a change of a group costs beside the members of the other clients: a join
// and a leave, and for a client that follows the group.
func groupCosts(s *costs) map[string]float64 {
	s.T.Helper()
	var members []*group.Membership
	for i, c := range s.clients[1:] {
		m, err := s.group(c.Client).Join(s.Ctx, fmt.Sprint("member-", i), nil)
		require.NoError(s.T, err)
		members = append(members, m)
	}
	g := s.group(s.clients[0].Client)
	join := func() *group.Membership {
		m, err := g.Join(s.Ctx, "last", nil)
		require.NoError(s.T, err)
		return m
	}
	require.NoError(s.T, join().Leave(s.Ctx)) // the path is known from here on
	follower := s.costClient(watchTimeout)
	ctx, stop := context.WithCancel(s.Ctx)
	sizes := make(chan int)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for change, err := range s.group(follower.Client).Observe(ctx) {
			if err != nil {
				return
			}
			select {
			case sizes <- len(change.Members):
			case <-ctx.Done():
			}
		}
	}()
	others := len(members)
	lists := func(n int) {
		s.T.Helper()
		for await(s.env, sizes) != n {
		}
	}
	lists(others)
	result := make(map[string]float64)
	before := s.settled(follower)
	var last *group.Membership
	result["`group`: join"] = s.cost(1, func() { last = join() })
	lists(others + 1)
	between := s.settled(follower)
	result["`group`: leave"] = s.cost(1, func() { require.NoError(s.T, last.Leave(s.Ctx)) })
	lists(others)
	result["`group`: a join, for each follower"] = float64(between - before)
	result["`group`: a leave, for each follower"] = float64(s.settled(follower) - between)
	stop()
	<-ended
	for _, m := range members {
		require.NoError(s.T, m.Leave(s.Ctx))
	}
	return result
}

// activations is how many activations the costs of one are measured over.
const activations = 3

// scheduleCosts returns what an activation costs while the other clients are replicas that wait.
func scheduleCosts(s *costs) map[string]float64 {
	s.T.Helper()
	ctx, stop := context.WithCancel(s.Ctx)
	ended := make(chan error, len(s.clients))
	ran := make(chan [2]int)
	leader, others := s.clients[0], s.clients[1:]
	for i, c := range s.clients {
		for len(c.waiting) > 0 {
			<-c.waiting
		}
		replica, err := schedule.New(c.Client, s.Path("schedule"), schedule.Every(time.Second), &schedule.Options{
			Election: election.Options{CoolDown: time.Nanosecond},
		})
		require.NoError(s.T, err)
		go func() {
			ended <- replica.Run(ctx, func(ctx context.Context, _ schedule.Activation) error {
				select {
				case ran <- [2]int{s.received(leader), s.received(others...)}:
				case <-ctx.Done():
				}
				return nil
			})
		}()
		if i == 0 {
			await(s.env, ran)
			continue
		}
		for waits := false; !waits; { // the leader's job must not block
			select {
			case <-c.waiting:
				waits = true
			case <-ran:
			case <-s.Ctx.Done():
				require.NoError(s.T, s.Ctx.Err())
			}
		}
	}
	await(s.env, ran)
	s.settled(others...)
	await(s.env, ran) // of an activation before the replicas had settled, perhaps
	from := await(s.env, ran)
	for range activations - 1 {
		await(s.env, ran)
	}
	to := await(s.env, ran)
	stop()
	for range s.clients {
		require.NoError(s.T, <-ended)
	}
	result := map[string]float64{"`schedule`: an activation, for the leader": float64(to[0]-from[0]) / activations}
	if len(others) > 0 {
		result["`schedule`: an activation, for each other replica"] = float64(to[1]-from[1]) / activations / float64(len(others))
	}
	return result
}
