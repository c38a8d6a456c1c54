// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Options describes a World.
type Options struct {
	Servers   int           // of the ensemble
	Timeout   time.Duration // T, the timeout of every session
	Tick      time.Duration // of the servers; the promises require at least four ticks in T
	Sync      int           // for how many ticks a server that lost its leader or its followers continues; 0: 5
	Reap      time.Duration // interval of the deletion of empty containers; 0: a minute, as in ZooKeeper
	Paths     []string      // of the locks and elections
	Heartbeat time.Duration // period of heartbeats; 0: T/6
	Latency   time.Duration // smallest latency of frames; 0: 1 ms
	Crowd     int           // number of further locks that c0 holds and no other process requests
	Flight    time.Duration // greatest age of an answer; 0: unknown
	LockDelay time.Duration // of all mutexes and elections, which then also have a fence function
	SASL      bool          // servers require that clients log in, on each connection
	Keeper    bool          // servers behave as ClickHouse Keeper

	LongWatches int // number of watches of each process that need a packet each: see watchLongPaths
}

// A World is an ensemble, the processes that contend on it, the registers that they write to, and the history. It runs in a
// synctest bubble.
type World struct {
	opts     Options
	ensemble *zktest.Ensemble
	recorder *history.Recorder
	sessions *sessions
	disturbance
	calling sync.WaitGroup // counts the goroutines of callers, and replicas that start

	mu         sync.Mutex // guards what follows
	processes  []*Process
	replicas   map[string]*Process // of the lock service, by name
	registers  map[string]*register
	rules      []*zktest.Interceptor // of faults, until they are healed
	byOperator map[int64]bool        // sessions that an operator ended
	revoked    map[string]bool       // nodes of contenders that were revoked
	handedOver history.Event         // the last one
	problems   []error
}

// newWorld starts the servers. text repeats the run.
func newWorld(opts Options, text string) (*World, error) {
	w := &World{
		opts:       opts,
		recorder:   history.NewRecorder(),
		sessions:   newSessions(),
		replicas:   map[string]*Process{},
		registers:  map[string]*register{},
		byOperator: map[int64]bool{},
		revoked:    map[string]bool{},
	}
	w.recorder.Add(history.Event{
		Kind: history.Run, Timeout: history.Instant(opts.Timeout), Tick: history.Instant(opts.Tick), Flight: history.Instant(opts.Flight),
		Delay: history.Instant(opts.LockDelay), Text: text,
	})
	var users map[string]string
	if opts.SASL {
		users = map[string]string{user: password}
	}
	personality := zktest.ZooKeeper
	if opts.Keeper {
		personality = zktest.Keeper
	}
	var err error
	w.ensemble, err = zktest.Run(context.Background(), &zktest.Options{
		Users: users, RequireSASL: opts.SASL, Personality: personality,
		InMemory: true, Servers: opts.Servers, Tick: opts.Tick, ContainerInterval: opts.Reap, SyncLimit: opts.Sync,
		Logger: slog.New(slog.DiscardHandler), OnCommit: w.recordCommit,
	})
	if err != nil {
		return nil, fmt.Errorf("start servers: %w", err)
	}
	paths := slices.Clone(opts.Paths)
	for _, path := range opts.Paths {
		for number := range mostSlots {
			for _, part := range stateParents {
				w.must(w.ensemble.Create(statePath(part, path, strconv.Itoa(number)), nil))
			}
		}
	}
	for _, assignment := range append([]string{""}, opts.Paths...) {
		for _, name := range assigned {
			paths = append(paths, assignPath+assignment+"/owned/"+name)
		}
	}
	for i := range opts.Crowd {
		paths = append(paths, crowdPath(i))
	}
	for _, path := range paths {
		for _, part := range stateParents {
			w.must(w.ensemble.Create(statePath(part, path, ""), nil))
		}
	}
	return w, nil
}

// problemf records a failure that is not a finding about the history.
func (w *World) problemf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Errorf(format, args...))
}

// must records a non-nil error as a problem.
func (w *World) must(err error) {
	if err != nil {
		w.problemf("%w", err)
	}
}

// fault records a fault of the network or the servers.
func (w *World) fault(format string, args ...any) {
	w.recorder.Add(history.Event{Kind: history.Fault, Text: fmt.Sprintf(format, args...)})
}

// register returns one of the two registers of a path, or of a number of its slots, empty for none.
func (w *World) register(path, number string, fenced bool) *register {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := path + " " + number + strconv.FormatBool(fenced)
	r := w.registers[key]
	if r == nil {
		r = &register{recorder: w.recorder}
		if fenced {
			r.gate = new(fencing.Gate)
		}
		w.registers[key] = r
	}
	return r
}

// expire ends a session as an operator would.
func (w *World) expire(session int64) error {
	mark := func(byOperator bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.byOperator[session] = byOperator
	}
	mark(true) // before the ensemble reports its end
	err := w.ensemble.Expire(context.Background(), session)
	if err != nil {
		mark(false)
	}
	return err
}

// heal ends every fault that can end.
func (w *World) heal() {
	w.fault("heal")
	ctx := context.Background()
	for _, s := range w.ensemble.Servers() {
		w.must(s.Start(ctx))
		w.must(s.Heal(ctx))
		s.Release()
		s.Refuse(false)
		s.Hang(false)
		s.Delay(0)
		s.Lag(0)
	}
	w.mu.Lock()
	rules := w.rules
	w.rules = nil
	w.mu.Unlock()
	for _, rule := range rules {
		rule.Remove()
	}
	for _, p := range w.alive() {
		p.heal()
	}
}

// alive returns the processes that have not crashed.
func (w *World) alive() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.processes), (*Process).crashed)
}

// settle ends the history after a quiet period in which no process holds or requests anything. Contender nodes that exist
// then are left behind.
func (w *World) settle() {
	time.Sleep(2*w.opts.Timeout + 4*w.opts.Tick)
	for _, p := range w.alive() {
		if n := p.client.OutstandingNodes(); n != 0 {
			w.problemf("%s still has %d outstanding nodes at the end", p.name, n)
		}
	}
	w.sessions.check(w)
	w.recorder.Add(history.Event{Kind: history.End})
}

// close ends the processes and the servers, when the callers have ended.
func (w *World) close() {
	w.calling.Wait()
	w.mu.Lock()
	processes := slices.Clone(w.processes)
	w.mu.Unlock()
	var closing sync.WaitGroup
	for _, p := range processes {
		closing.Go(p.close)
	}
	closing.Wait()
	w.must(w.ensemble.Close())
}
