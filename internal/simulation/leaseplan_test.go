// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const leasePath = "/locks/l"

// A leaseWorld is two replicas of a lock service, their callers and a client of the library, all
// drawn from a seed.
type leaseWorld struct {
	ensemble *zktest.Ensemble
	history  *leaseHistory
	most     time.Duration // greatest latency of frames, and of HTTP messages
	working  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	replicas []*leaseReplica
	links    []*zktest.Link
}

const leaseTimeout = 4 * time.Second

// flight draws the latency of an HTTP message.
func (w *leaseWorld) flight(rng *rand.Rand) time.Duration {
	return time.Duration(rng.Int64N(int64(w.most)))
}

// client connects a client with its own link and latency.
func (w *leaseWorld) client(rng *rand.Rand) (*recipes.Client, error) {
	link := w.ensemble.Link()
	link.Delay(time.Millisecond + time.Duration(rng.Int64N(int64(w.most))/4))
	w.mu.Lock()
	w.links = append(w.links, link)
	w.mu.Unlock()
	return recipes.Connect(context.Background(), w.ensemble.Servers(), &recipes.Options{
		SessionTimeout: leaseTimeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
}

// start starts a replica in that place.
func (w *leaseWorld) start(rng *rand.Rand, i int) {
	client, err := w.client(rng)
	if err != nil {
		w.history.problemf("connect: %v", err)
		return
	}
	r, err := lease.New(client, nil)
	if err != nil {
		w.history.problemf("replica: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	w.replicas[i] = &leaseReplica{Replica: r, client: client, ctx: ctx, cancel: cancel}
	w.mu.Unlock()
}

// replica draws a replica.
func (w *leaseWorld) replica(rng *rand.Rand) *leaseReplica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[rng.IntN(len(w.replicas))]
}

// stop ends the replica's process: its connections to callers and servers end. A process that is
// killed deletes nothing, so its network goes first.
func (r *leaseReplica) stop() {
	r.once.Do(func() {
		r.client.Close()
		r.cancel()
		r.Close()
	})
}

// inject injects faults until that instant.
func (w *leaseWorld) inject(rng *rand.Rand, until time.Time) {
	for time.Now().Before(until) {
		time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Second))))
		w.mu.Lock()
		link, i := w.links[rng.IntN(len(w.links))], rng.IntN(len(w.replicas))
		victim := w.replicas[i]
		w.mu.Unlock()
		switch rng.IntN(5) {
		case 0: // silence, as of a pause or a partition
			link.Hold(zktest.Direction(1 + rng.IntN(3)))
			time.Sleep(time.Duration(rng.Int64N(int64(2 * leaseTimeout))))
			link.Release()
		case 1, 2: // the connection ends at a request
			direction := zktest.ToServer
			if rng.IntN(2) == 0 {
				direction = zktest.ToClient
			}
			w.ensemble.Intercept(zktest.Rule{
				When: func(r zktest.Request) bool { return r.Op != "ping" && r.Op != "connect" }, Skip: rng.IntN(6), Times: 1, Lose: direction,
			})
		case 3: // a replica is replaced
			victim.stop()
			w.start(rng, i)
		}
	}
}

// heal ends all faults.
func (w *leaseWorld) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, link := range w.links {
		link.Release()
		link.Refuse(false)
	}
}

// runLeases runs the plan of a seed in a synctest bubble, and returns what is wrong.
func runLeases(seed uint64) (wrong []string, err error) {
	rng := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	own := rng(0)
	w := &leaseWorld{
		history:  &leaseHistory{nodes: make(map[string]*leaseNode)},
		most:     time.Duration(4+own.Int64N(250)) * time.Millisecond,
		replicas: make([]*leaseReplica, 2),
	}
	w.ensemble, err = zktest.Listen(&zktest.Options{
		InMemory: true, Tick: leaseTimeout / 4, ContainerInterval: time.Hour, OnCommit: w.history.commit, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("start servers: %w", err)
	}
	for i := range w.replicas {
		w.start(own, i)
	}
	client, err := w.client(own)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	const length = 40 * time.Second
	until := time.Now().Add(length)
	for i := range uint64(3) {
		c := &leaseCaller{world: w, name: fmt.Sprint("c", i), rng: rng(i + 1)}
		w.working.Go(func() {
			for n := 0; time.Now().Before(until); n++ {
				c.use(n)
			}
		})
	}
	w.working.Go(func() { w.contend(rng(10), client, until) })
	w.working.Go(func() { w.inject(rng(11), until) })
	if own.IntN(2) == 0 {
		w.working.Go(func() { w.administrate(rng(12), until) })
	}
	time.Sleep(length)
	w.heal()
	w.working.Wait()
	// An orphan ends after an observer has read it, behind those that were ahead of it.
	for range 3 {
		_, _ = w.replicas[0].Status(context.Background(), leasePath)
		time.Sleep(40 * time.Second)
	}
	wrong = w.history.check()
	for _, r := range w.replicas {
		r.stop()
	}
	client.Close()
	return wrong, w.ensemble.Close()
}

// checkLeases runs the plan of a seed, and fails the test if something is wrong.
func checkLeases(t *testing.T, seed uint64) {
	t.Helper()
	watchdog := watch(fmt.Sprintf("leases, seed %d", seed))
	defer watchdog.Stop()
	var wrong []string
	err := inSynctest(t, func() (err error) {
		wrong, err = runLeases(seed)
		return err
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	if len(wrong) > 0 {
		failures.Add(1)
		t.Errorf("seed %d\n%s\nrepeat: go test ./internal/simulation -run TestNoLeasePlan -sim.seed %d", seed, strings.Join(wrong, "\n"), seed)
	}
}

// Two replicas serve callers that repeat, duplicate and abandon requests, beside a client of the
// library, while connections break, replicas disappear and an administrator revokes leases.
func TestNoLeasePlanBreaksPromise(t *testing.T) {
	count := max(*seeds/20, 20)
	if *mutant {
		count = *seeds
	}
	const shards = 4
	for shard := range shards {
		t.Run(fmt.Sprintf("shard %d", shard), func(t *testing.T) {
			t.Parallel()
			for i := shard; i < count && !enoughFailures(); i += shards {
				runs.plans.Add(1)
				s := uint64(*first + i) //nolint:gosec // it is positive
				if *seed != 0 {
					s = *seed
				}
				checkLeases(t, s)
			}
		})
	}
}
