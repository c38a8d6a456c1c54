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
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/internal/tuning"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A Process is a client with a link of its own, and what contends through it.
type Process struct {
	world    *World
	name     string
	link     *zktest.Link
	servers  []string        // that it knows of
	distance time.Duration   // to the servers
	client   *recipes.Client // nil if it could not connect
	ctx      context.Context // done when the process is closed
	cancel   context.CancelFunc
	working  sync.WaitGroup

	mu        sync.Mutex       // guards what follows
	held      zktest.Direction // by a fault
	paused    bool
	dead      bool
	awake     chan struct{} // closed while it is not paused
	mutexes   map[string]*lock.Mutex
	elections map[string]*election.Election
	epochs    map[string]*epoch.Epochs
}

// near is how long a frame is under way at least, as a rule. It is a little more for each further process: where nothing
// took time, all that is done at one instant would pass for done in the right order.
const near = time.Millisecond

// process makes a process and connects it. change may change its options before that.
func (w *World) process(name string, change func(*Process, *recipes.Options)) (*Process, error) {
	p := &Process{
		world: w, name: name, link: w.ensemble.Link(), servers: w.ensemble.Servers(), awake: make(chan struct{}),
		mutexes: map[string]*lock.Mutex{}, elections: map[string]*election.Election{}, epochs: map[string]*epoch.Epochs{},
	}
	close(p.awake)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	opts := &recipes.Options{
		SessionTimeout: w.opts.Timeout, Dial: p.link.Dial, Trace: w.sessions.trace(), Logger: slog.New(slog.DiscardHandler),
	}
	w.mu.Lock()
	w.processes = append(w.processes, p)
	away := cmp.Or(w.opts.Away, near)
	p.distance = away + away*time.Duration(len(w.processes))/8
	w.mu.Unlock()
	p.link.Delay(p.distance)
	if change != nil {
		change(p, opts)
	}
	w.lay(p)
	client, err := recipes.Connect(tuning.With(p.ctx, tuning.Tuning{Heartbeat: w.opts.Beat}), p.servers, opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.client = client
	return p, nil
}

// close ends the process. It waits for what it has spawned.
func (p *Process) close() {
	p.cancel()
	p.wake()
	if p.client != nil {
		p.client.Close()
	}
	p.working.Wait()
}

// step is called before whatever the process does or notes by itself: it waits while the process is paused, and is
// false once it has crashed.
func (p *Process) step() bool {
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

// tell notes what the process did or saw, unless it has crashed.
func (p *Process) tell(e history.Event, kind history.Kind) bool {
	if !p.step() {
		return false
	}
	e.Kind = kind
	p.world.recorder.Add(e)
	return true
}

func (p *Process) crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// pause has the process not be scheduled until wake.
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

func (p *Process) wake() {
	p.mu.Lock()
	if !p.paused {
		p.mu.Unlock()
		return
	}
	p.paused = false
	awake, held, dead := p.awake, p.held, p.dead
	if !dead {
		p.world.recorder.Add(history.Event{Kind: history.Woke, Contender: p.name})
	}
	p.mu.Unlock()
	if !dead {
		p.link.Release()
		p.link.Hold(held)
	}
	close(awake)
}

// crash has the process be gone for good. hangUp says whether its connections end, as when it is killed, or are not
// heard of again, as when its machine loses power.
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
		p.link.Cut()
	} else {
		p.link.Hold(zktest.Both)
	}
	// Those who wait find out, and what they do now nobody hears of.
	p.cancel()
	p.wake()
}

// hold silences the process's link; release lets it speak again, unless it is paused.
func (p *Process) hold(d zktest.Direction) {
	p.mu.Lock()
	p.held |= d
	p.mu.Unlock()
	p.link.Hold(d)
}

func (p *Process) release() {
	p.mu.Lock()
	p.held = 0
	paused := p.paused
	p.mu.Unlock()
	if !paused {
		p.link.Release()
	}
}

// heal ends what was done to the process, unless it has crashed.
func (p *Process) heal() {
	p.wake()
	p.release()
	p.link.Refuse(false)
	p.link.Delay(p.distance)
}

func (p *Process) mutex(path string) (*lock.Mutex, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.mutexes[path]; m != nil {
		return m, nil
	}
	m, err := lock.New(p.client, path, &lock.Options{Owner: p.name})
	if err == nil {
		p.mutexes[path] = m
	}
	return m, err
}

func (p *Process) election(path string) (*election.Election, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.elections[path]; e != nil {
		return e, nil
	}
	e, err := election.New(p.client, path, &election.Options{ID: p.name, CoolDown: 50 * time.Millisecond})
	if err == nil {
		p.elections[path] = e
	}
	return e, err
}

func (p *Process) epochsOf(path string) (*epoch.Epochs, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.epochs[path]; e != nil {
		return e, nil
	}
	e, err := epoch.New(p.client, epochPath(path), &epoch.Options{ID: p.name})
	if err == nil {
		p.epochs[path] = e
	}
	return e, err
}

// nodeOf is a node below path of the process's session, if there is one.
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
