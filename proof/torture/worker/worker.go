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

	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

// Run contends with this library or, where Spec.Service is set, through the lock service. spec is a Spec in JSON. Run reads
// commands from in and writes events to out. It returns after Stop, when each of its clients was granted a lock once more, or
// when in has ended.
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
		avoided: map[string]time.Time{}, extended: map[int]time.Time{}, stop: make(chan struct{}),
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

	reportedWrite sync.Once // a failed write to a register was reported

	mu       sync.Mutex           // guards what follows
	avoided  map[string]time.Time // by path: begin no operation until
	extended map[int]time.Time    // by attempt: hold at least until
	waiting  map[string]map[*context.CancelCauseFunc]struct{}
}

func (p *process) stopOnce() { p.once.Do(func() { close(p.stop) }) }

func (p *process) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}
