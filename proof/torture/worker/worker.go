// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

// Run contends with this library or, where Spec.Service is set, through the lock service. spec is a Spec in JSON. Run reads
// commands from in and writes events to out. It returns after Stop and Close, when each of its clients was granted a lock once more,
// or when in has ended.
func Run(spec string, in io.Reader, out io.Writer) error { return RunWith(nil, spec, in, out) }

// RunWith is Run with another library.
func RunWith(library Library, spec string, in io.Reader, out io.Writer) error {
	var p Spec
	if err := json.Unmarshal([]byte(spec), &p); err != nil {
		return fmt.Errorf("worker: decode spec: %w", err)
	}
	switch {
	case library != nil:
	case len(p.Service) > 0:
		library = &service{}
	default:
		library = lockkeeper{}
	}
	shared := &process{
		library: library, spec: p, reporter: &reporter{name: p.Name, time: clock.Scale{Began: p.Began}, out: out, attempt: p.First},
		avoided: map[string]time.Time{}, extended: map[int]time.Time{}, stop: make(chan struct{}), closing: make(chan struct{}),
		waiting: map[string]map[*context.CancelCauseFunc]struct{}{},
	}
	ctx, abandon := context.WithCancel(context.Background())
	defer abandon()
	done := make(chan struct{})
	var watching, working sync.WaitGroup
	watching.Go(func() { shared.reporter.watchClock(Gap(time.Duration(p.Timeout)), done) })
	for i := range max(p.Clients, 1) {
		c := &workloadClient{
			process: shared, ctx: ctx, rand: rand.New(rand.NewPCG(p.Seed, uint64(i))),
			registers: &register.Client{Addr: p.Register},
		}
		working.Go(c.loop)
	}
	for _, t := range tasks {
		working.Go(func() { shared.runTask(ctx, t) })
	}
	if p.Waiters+p.Holds > 0 && !p.Probe {
		acquiring, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		working.Go(func() {
			<-shared.stop
			cancel(errStopped)
		})
		working.Go(func() { (&load{shared, acquiring}).run(ctx) })
	}
	go func() { // a read cannot be interrupted; the goroutine ends with the process
		shared.readCommands(in)
		shared.stopOnce()
		abandon() // without the harness, faults are never healed
	}()
	working.Wait()
	shared.closeClients(ctx)
	close(done)
	watching.Wait()
	return nil
}

// Gap returns the shortest gap in a worker's schedule that counts as not scheduled, for a session timeout.
func Gap(timeout time.Duration) time.Duration { return timeout / 32 }

// A process is the state that the clients of a worker process share.
type process struct {
	library  Library
	spec     Spec
	reporter *reporter
	stop     chan struct{} // closed when no further operation may begin
	once     sync.Once
	closing  chan struct{} // closed when the clients may close
	ending   sync.Once

	reportedWrite sync.Once // a failed write to a register was reported

	mu       sync.Mutex           // guards what follows
	avoided  map[string]time.Time // by path: begin no operation until
	extended map[int]time.Time    // by attempt: hold at least until
	waiting  map[string]map[*context.CancelCauseFunc]struct{}

	connected []connected // clients that request nothing any more
}

func (p *process) stopOnce() { p.once.Do(func() { close(p.stop) }) }

func (p *process) closeOnce() { p.ending.Do(func() { close(p.closing) }) }

func (p *process) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// A connected is a client that requests nothing any more. It stays connected until Close, because the end of its session would delete the
// nodes that it has left behind.
type connected struct {
	outstanding func() int
	close       func()
}

// keep keeps a client connected until closeClients. outstanding returns how many of its nodes may exist.
func (p *process) keep(outstanding func() int, closeIt func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connected = append(p.connected, connected{outstanding, closeIt})
}

// closeClients reports that the process has stopped, and closes its clients when the harness requests it or ctx ends. A process that only
// probes waits for no request. It is called when no operation is in progress.
func (p *process) closeClients(ctx context.Context) {
	if ctx.Err() == nil && !p.spec.Probe {
		p.reporter.report(history.Event{Kind: history.Stopped})
		select {
		case <-p.closing:
		case <-ctx.Done():
		}
	}
	var ending sync.WaitGroup
	for _, c := range p.connected {
		ending.Go(func() {
			if left := p.settle(ctx, c); left > 0 {
				p.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf(
					"a client that has released everything has %d outstanding nodes", left)})
			}
			c.close()
		})
	}
	ending.Wait()
}

// settle waits for T at most until a client has no outstanding node, and returns how many it has. It returns 0 when ctx ends.
func (p *process) settle(ctx context.Context, c connected) (left int) {
	for giveUp := time.Now().Add(time.Duration(p.spec.Timeout)); ctx.Err() == nil; clock.Sleep(10 * time.Millisecond) {
		if left = c.outstanding(); left == 0 || time.Now().After(giveUp) {
			return left
		}
	}
	return 0
}
