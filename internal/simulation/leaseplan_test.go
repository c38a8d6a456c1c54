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
	return recipes.Connect(context.Background(), w.ensemble.Addrs(), &recipes.Options{
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
		case 4: // answers are slow, and what they show is old when they arrive
			ops := []string{"setData", "create", "getChildren", "getData"}
			w.ensemble.Intercept(zktest.Rule{
				Op: ops[rng.IntN(len(ops))], Below: "/locks", Times: 1 + rng.IntN(8),
				Delay: time.Duration(rng.Int64N(int64(leaseTimeout / 9))),
			})
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

// newLeaseWorld starts servers and two replicas.
func newLeaseWorld(rng *rand.Rand, servers int, most time.Duration) (w *leaseWorld, err error) {
	w = &leaseWorld{history: &leaseHistory{nodes: make(map[string]*leaseNode)}, most: most, replicas: make([]*leaseReplica, 2)}
	w.ensemble, err = zktest.Run(context.Background(), &zktest.Options{
		InMemory: true, Servers: servers, Tick: leaseTimeout / 4, ContainerInterval: time.Hour, OnCommit: w.history.commit, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("start servers: %w", err)
	}
	for i := range w.replicas {
		w.start(rng, i)
	}
	return w, nil
}

// runLeases runs the plan of a seed in a synctest bubble, and returns what is wrong.
func runLeases(seed uint64) (wrong []string, err error) {
	rng := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	own := rng(0)
	servers := 1 + 2*own.IntN(2)
	w, err := newLeaseWorld(own, servers, time.Duration(4+own.Int64N(250))*time.Millisecond)
	if err != nil {
		return nil, err
	}
	for _, follower := range w.ensemble.Servers()[1:] {
		follower.Lag(time.Duration(own.Int64N(int64(leaseTimeout / 8))))
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
	return w.end(client)
}

// end returns what is wrong with the run, once every lease has ended.
func (w *leaseWorld) end(client *recipes.Client) (wrong []string, err error) {
	// An orphan ends after an observer has read it, behind those that were ahead of it.
	for range 3 {
		_, _ = w.replicas[0].Status(context.Background(), leasePath)
		time.Sleep(40 * time.Second)
	}
	wrong = w.history.check()
	for _, r := range w.replicas {
		r.stop()
	}
	if client != nil {
		client.Close()
	}
	return wrong, w.ensemble.Close()
}

// checkLeases runs a run in a bubble, and fails the test if something is wrong. flags repeat it.
func checkLeases(t *testing.T, name, flags string, run func() (wrong []string, err error)) {
	t.Helper()
	runs.plans.Add(1)
	watchdog := watch("leases, " + name)
	defer watchdog.Stop()
	var wrong []string
	err := inSynctest(t, func() (err error) {
		wrong, err = run()
		return err
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	if len(wrong) > 0 {
		failures.Add(1)
		t.Errorf("%s\n%s\nrepeat: go test ./internal/simulation %s", name, strings.Join(wrong, "\n"), flags)
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
				s := uint64(*first + i) //nolint:gosec // it is positive
				if *seed != 0 {
					s = *seed
				}
				checkLeases(t, fmt.Sprintf("seed %d", s), fmt.Sprintf("-run TestNoLeasePlan -sim.seed %d", s), func() ([]string, error) { return runLeases(s) })
			}
		})
	}
}
