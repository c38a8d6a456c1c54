// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/tuning"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A Process is a client with its own link, and the workers that contend through it.
type Process struct {
	world   *World
	name    string
	link    *zktest.Link
	servers []string        // addresses that it knows
	latency time.Duration   // between it and the servers
	client  *recipes.Client // nil if it could not connect
	replica *lease.Replica  // of the lock service; nil if the process is none
	ctx     context.Context // done when the process is closed
	cancel  context.CancelFunc
	working sync.WaitGroup
	died    func() // called when it is killed; nil for none

	mu       sync.Mutex       // guards what follows
	silenced zktest.Direction // of the link, by a fault
	paused   bool
	dead     bool
	awake    chan struct{}   // closed while it is not paused
	recipes  map[string]any  // see once
	listed   []group.Member  // the newest that it got
	observed election.Leader // that it was shown last
	fences   int             // calls of its fence functions that are still to fail

	succession succession // in elections
}

// defaultLatency is the latency of frames unless a plan sets another. Each further process has a slightly greater one:
// without latency, everything done at one instant would appear to be done in the right order.
const defaultLatency = time.Millisecond

// process starts a process and connects it. change, if not nil, may change the process and its options before that.
func (w *World) process(name string, change func(*Process, *recipes.Options)) (*Process, error) {
	p := &Process{
		world: w, name: name, link: w.ensemble.Link(), servers: w.ensemble.Addrs(), awake: make(chan struct{}),
		recipes: map[string]any{},
	}
	close(p.awake)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	opts := &recipes.Options{
		SessionTimeout: w.opts.Timeout, Dial: p.link.Dial, Trace: w.sessions.trace(), Logger: slog.New(slog.DiscardHandler),
	}
	if w.opts.SASL {
		opts.SASL = recipes.DigestMD5(user, password)
	}
	w.mu.Lock()
	w.processes = append(w.processes, p)
	latency := cmp.Or(w.opts.Latency, defaultLatency)
	p.latency = latency + latency*time.Duration(len(w.processes))/8
	w.mu.Unlock()
	p.link.Delay(p.latency)
	if change != nil {
		change(p, opts)
	}
	w.setTraps(name, p.link)
	client, err := recipes.Connect(tuning.With(p.ctx, tuning.Tuning{Heartbeat: w.opts.Heartbeat}), p.servers, opts)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	p.client = client
	p.watchLongPaths(w.opts.LongWatches)
	return p, nil
}

// close ends the process and waits for its goroutines.
func (p *Process) close() {
	p.cancel()
	p.wake()
	if p.replica != nil {
		p.replica.Close()
	}
	if p.client != nil {
		p.client.Close()
	}
	p.working.Wait()
}

// waitRunning blocks while the process is paused, and reports whether it has not crashed. The process's own code calls it
// before every action and event.
func (p *Process) waitRunning() bool {
	for {
		p.mu.Lock()
		dead, paused, awake := p.dead, p.paused, p.awake
		p.mu.Unlock()
		switch {
		case dead:
			return false
		case !paused:
			return true
		}
		<-awake
	}
}

// record adds an event of the process to the history, and reports whether it has not crashed.
func (p *Process) record(e history.Event, kind history.Kind) bool {
	if !p.waitRunning() {
		return false
	}
	e.Kind = kind
	p.world.recorder.Add(e)
	return true
}

// crashed reports whether the process has crashed.
func (p *Process) crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// pause stops the process until wake.
func (p *Process) pause() {
	p.mu.Lock()
	if p.paused || p.dead {
		p.mu.Unlock()
		return
	}
	p.paused, p.awake = true, make(chan struct{})
	p.world.recorder.Add(history.Event{Kind: history.Paused, Contender: p.name})
	p.mu.Unlock()
	p.link.Hold(zktest.Both)
}

// wake ends a pause.
func (p *Process) wake() {
	p.mu.Lock()
	if !p.paused {
		p.mu.Unlock()
		return
	}
	p.paused = false
	awake, silenced, dead := p.awake, p.silenced, p.dead
	if !dead {
		p.world.recorder.Add(history.Event{Kind: history.Woke, Contender: p.name})
	}
	p.mu.Unlock()
	if !dead {
		p.link.Release()
		p.link.Hold(silenced)
	}
	close(awake)
}

// crash ends the process for good. With hangUp its connections are closed, as when it is killed; without, they fall silent,
// as when its machine loses power.
func (p *Process) crash(hangUp bool) {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.dead = true
	p.world.recorder.Add(history.Event{Kind: history.Crashed, Contender: p.name})
	p.mu.Unlock()
	if hangUp {
		p.link.Refuse(true)
		p.link.Reset()
	} else {
		p.link.Hold(zktest.Both)
	}
	if hangUp && p.died != nil {
		p.died()
	}
	// Its waiting calls return. They record nothing any more.
	p.cancel()
	p.wake()
}

// silence holds back the frames of the process's link in a direction, until endSilence.
func (p *Process) silence(d zktest.Direction) {
	p.mu.Lock()
	p.silenced |= d
	p.mu.Unlock()
	p.link.Hold(d)
}

// endSilence delivers the frames that silence held back, unless the process is paused.
func (p *Process) endSilence() {
	p.mu.Lock()
	p.silenced = 0
	paused := p.paused
	p.mu.Unlock()
	if !paused {
		p.link.Release()
	}
}

// heal ends the faults of the process.
func (p *Process) heal() {
	p.wake()
	p.endSilence()
	p.link.Refuse(false)
	p.link.Delay(p.latency)
}

// once returns the process's recipe of a type and a path, such as its mutex, and makes it the first time.
func once[T any](p *Process, path string, construct func() (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := fmt.Sprintf("%T %s", *new(T), path)
	if known, ok := p.recipes[key].(T); ok {
		return known, nil
	}
	made, err := construct()
	if err == nil {
		p.recipes[key] = made
	}
	return made, err
}

// mutex returns the process's mutex of a path. It is re-entrant, which must change nothing outside the context of a hold.
func (p *Process) mutex(path string) (*lock.Mutex, error) {
	return once(p, path, func() (*lock.Mutex, error) {
		return lock.New(p.client, path, &lock.Options{
			Owner: p.name, Reentrant: true, LockDelay: p.world.opts.LockDelay, Fence: p.fenceOf(path),
		})
	})
}

// election returns the process's election of a path.
func (p *Process) election(path string) (*election.Election, error) {
	return once(p, path, func() (*election.Election, error) {
		return election.New(p.client, path, &election.Options{
			Owner: p.name, CoolDown: 50 * time.Millisecond, Priority: p.succession.priority, PriorityWait: p.world.fraction(8),
			LockDelay: p.world.opts.LockDelay, Fence: p.fenceOf(path),
		})
	})
}

// epochsOf returns the process's epochs of a path.
func (p *Process) epochsOf(path string) (*epoch.Epochs, error) {
	return once(p, path, func() (*epoch.Epochs, error) {
		return epoch.New(p.client, epochPath(path), &epoch.Options{Owner: p.name})
	})
}

// nodeOf returns a node of the process's session below path, if one exists.
func (p *Process) nodeOf(path string) (node string, found bool) {
	names, err := p.world.ensemble.Children(path)
	if err != nil {
		return "", false
	}
	for _, name := range names {
		node := strings.TrimSuffix(path, "/") + "/" + name
		if _, stat, err := p.world.ensemble.Get(node); err == nil && stat.EphemeralOwner == p.client.SessionID() {
			return node, true
		}
	}
	return "", false
}

// user and password are the credentials of every process.
const user, password = "process", "secret"

// A succession is how a process takes part in elections beyond the order of the queue. It is set before the first campaign.
type succession struct {
	priority  int
	successor string        // to whom the process hands its terms over; empty: to no candidate
	after     time.Duration // from the beginning of the term until it does
}
