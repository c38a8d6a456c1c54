// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Options say what a world is like.
type Options struct {
	Servers int           // of the ensemble
	Timeout time.Duration // T, of every session
	Tick    time.Duration // of the servers; T is four of them at least
	Sync    int           // for how many ticks a server goes on that has lost its leader or its followers; 0: 5
	Reap    time.Duration // how often empty containers go; 0: ZooKeeper's minute
	Paths   []string      // of the locks and elections
	Beat    time.Duration // from one heartbeat of a session to the next; 0: T/6
	Away    time.Duration // how long a frame is under way at least; 0: 1 ms
	Crowd   int           // how many locks c0 holds besides, which no other process asks for
	Flight  time.Duration // how old an answer can be; 0: as old as can be
}

// A World is an ensemble, the processes that contend on it, what they write to, and the history of all that. It lives
// in a bubble.
type World struct {
	opts     Options
	ensemble *zktest.Ensemble
	recorder *history.Recorder
	sessions *sessions
	told

	mu        sync.Mutex // guards what follows
	processes []*Process
	registers map[string]*register
	byHand    map[int64]bool // sessions that were ended by hand
	problems  []error
}

// newWorld starts the servers. text says how to repeat the run.
func newWorld(opts Options, text string) (*World, error) {
	w := &World{
		opts:      opts,
		recorder:  history.NewRecorder(),
		sessions:  newSessions(),
		registers: map[string]*register{},
		byHand:    map[int64]bool{},
	}
	w.recorder.Add(history.Event{
		Kind: history.Run, Timeout: history.Instant(opts.Timeout), Tick: history.Instant(opts.Tick), Flight: history.Instant(opts.Flight), Text: text,
	})
	var err error
	w.ensemble, err = zktest.Listen(&zktest.Options{
		InMemory: true, Servers: opts.Servers, Tick: opts.Tick, ContainerInterval: opts.Reap, SyncLimit: opts.Sync,
		Logger: slog.New(slog.DiscardHandler), OnCommit: w.committed,
	})
	if err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	paths := slices.Clone(opts.Paths)
	for i := range opts.Crowd {
		paths = append(paths, crowdPath(i))
	}
	for _, path := range paths {
		for _, part := range parts {
			w.must(w.ensemble.Create(part+path, nil))
		}
	}
	return w, nil
}

// failf notes that something went wrong which no rule of the checker is about.
func (w *World) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Errorf(format, args...))
}

// must notes an error that must not be.
func (w *World) must(err error) {
	if err != nil {
		w.failf("%w", err)
	}
}

// fault notes what is done to the network or the servers.
func (w *World) fault(format string, args ...any) {
	w.recorder.Add(history.Event{Kind: history.Fault, Text: fmt.Sprintf(format, args...)})
}

// register is one of the two behind a path.
func (w *World) register(path string, fenced bool) *register {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := path + strconv.FormatBool(fenced)
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
	mark := func(byHand bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.byHand[session] = byHand
	}
	mark(true) // before it is told of
	err := w.ensemble.Expire(session)
	if err != nil {
		mark(false)
	}
	return err
}

// committed tells the history what the ensemble has done. It is called for one transaction after the other.
func (w *World) committed(c zktest.Commit) {
	if c.Err != nil {
		return
	}
	e := history.Event{Zxid: history.ID(c.Zxid), Session: history.ID(c.Session), Node: c.Path}
	switch c.Op {
	case "multi":
		for _, op := range c.Ops {
			w.committed(op)
		}
	case "create", "create2", "createContainer":
		w.claimed(c)
		e.Kind = history.Created
		w.sessions.made(c.Session, c.Path)
		w.recorder.AddAt(c.Time, e)
	case "delete", "deleteContainer":
		e.Kind, e.Cause = history.Deleted, history.ByRequest
		if c.Session == 0 && c.Op == "delete" {
			e.Cause = history.ByHand
		}
		w.recorder.AddAt(c.Time, e)
	case "setData":
		w.claimed(c)
		w.written(c)
	case "closeSession":
		w.ended(c, e)
	}
}

// ended tells the history of a session's end.
func (w *World) ended(c zktest.Commit, e history.Event) {
	e.Cause = history.ByRequest
	if c.Expired {
		e.Cause = history.ByTimeout
		w.mu.Lock()
		if w.byHand[c.Session] {
			e.Cause = history.ByHand
		}
		w.mu.Unlock()
	}
	e.Kind, e.Node = history.Ended, ""
	w.recorder.AddAt(c.Time, e)
	for _, path := range c.Removed {
		e.Kind, e.Node = history.Deleted, path
		w.recorder.AddAt(c.Time, e)
	}
}

// heal ends every fault that can end.
func (w *World) heal() {
	w.fault("heal")
	for i := range w.opts.Servers {
		s := w.ensemble.Server(i)
		_ = s.Start() // refused if it runs
		w.must(s.Mend())
		s.Release()
		s.Refuse(false)
		s.Mute(false)
		s.Delay(0)
		s.Lag(0)
	}
	for _, p := range w.living() {
		p.heal()
	}
}

// living are the processes that have not crashed.
func (w *World) living() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.processes), (*Process).crashed)
}

// settle ends the history: nobody holds or asks for anything any more, and for a while nothing is in anybody's way.
// What is then left of contenders is left behind.
func (w *World) settle() {
	time.Sleep(2*w.opts.Timeout + 4*w.opts.Tick)
	for _, p := range w.living() {
		if n := p.client.Ledger(); n != 0 {
			w.failf("%s still has %d nodes in its ledger at the end", p.name, n)
		}
	}
	w.sessions.check(w)
	w.recorder.Add(history.Event{Kind: history.End})
}

// close ends everything that runs in the bubble.
func (w *World) close() {
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
