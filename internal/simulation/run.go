// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// patience is for how long whatever is left to be done may take once everything is healed, in fake time.
const patience = 5 * time.Minute

// Run carries a plan out, in a bubble. It returns what happened, and what went wrong besides what the history tells.
func (p Plan) Run() ([]history.Event, error) {
	w, err := newWorld(p.Options, p.String())
	if err != nil {
		return nil, err
	}
	processes, err := w.start(p)
	if err != nil {
		w.failf("%w", err)
		w.close()
		return w.recorder.Events(), errors.Join(w.problems...)
	}
	began := time.Now()
	workers := p.employ(began, processes)
	if p.Crowd > 0 {
		workers = append(workers, crowd(processes[0], p.Crowd, began.Add(p.Length)))
	}
	for _, s := range p.Steps {
		if strings.Contains(s.Who, ".") {
			continue
		}
		time.Sleep(time.Until(began.Add(s.At)))
		w.suffer(s, processes)
	}
	time.Sleep(time.Until(began.Add(p.Length)))
	w.heal()
	if w.await(workers) {
		w.lastRound()
		w.settle()
	}
	w.close()
	return w.recorder.Events(), errors.Join(w.problems...)
}

// start makes the processes of a plan, all at once.
func (w *World) start(plan Plan) ([]*Process, error) {
	processes, errs := make([]*Process, plan.Processes), make([]error, plan.Processes)
	var starting sync.WaitGroup
	for i := range processes {
		starting.Go(func() {
			processes[i], errs[i] = w.process("c"+strconv.Itoa(i), func(p *Process, _ *recipes.Options) {
				if server, near := plan.Near[i]; near {
					p.servers = p.servers[server : server+1]
				}
			})
		})
	}
	starting.Wait()
	return processes, errors.Join(errs...)
}

// suffer carries out one step that is no worker's. What cannot be done as things are, is not done.
func (w *World) suffer(s Step, processes []*Process) {
	var err error
	if s.Who == "zk" {
		err = w.harm(s.What)
	} else {
		n, _ := strconv.Atoi(s.Who[1:])
		err = processes[n].harm(s.What)
	}
	if err != nil {
		w.recorder.Add(history.Event{Kind: history.Note, Text: fmt.Sprintf("%v: %v", s, err)})
	}
}

// A worker does one thing after the other.
type worker struct {
	process *Process
	asks    []Step
	done    chan struct{}
}

// employ has the workers of a plan work.
func (p Plan) employ(began time.Time, processes []*Process) []*worker {
	byName := map[string]*worker{}
	var names []string
	for _, s := range p.Steps {
		process, _, isWorker := strings.Cut(s.Who, ".")
		if !isWorker {
			continue
		}
		if byName[s.Who] == nil {
			n, _ := strconv.Atoi(process[1:])
			byName[s.Who] = &worker{process: processes[n], done: make(chan struct{})}
			names = append(names, s.Who)
		}
		byName[s.Who].asks = append(byName[s.Who].asks, s)
	}
	workers := make([]*worker, 0, len(names))
	for _, name := range names {
		w := byName[name]
		workers = append(workers, w)
		w.process.working.Go(func() { w.work(began) })
	}
	return workers
}

func (w *worker) work(began time.Time) {
	defer close(w.done)
	for _, s := range w.asks {
		time.Sleep(time.Until(began.Add(s.At)))
		ask, err := s.ask()
		if err == nil && w.process.step() {
			err = w.process.do(ask)
		}
		if w.process.crashed() || w.process.ctx.Err() != nil {
			return
		}
		var held *lock.HeldError
		if err == nil || ask.Wait > 0 && errors.Is(err, context.DeadlineExceeded) || ask.How == "try" && errors.As(err, &held) {
			continue
		}
		w.process.world.failf("%v: %w", s, err)
	}
}

// await waits for those workers whose processes live.
func (w *World) await(workers []*worker) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, worker := range workers {
		if worker.process.crashed() {
			continue
		}
		select {
		case <-worker.done:
		case <-timer.C:
			w.failf("a worker of %s is not done %v after everything was healed", worker.process.name, patience)
			return false
		}
	}
	return true
}

// lastRound has every process that lives take each lock once more: whatever has happened, it must be able to.
func (w *World) lastRound() {
	var all sync.WaitGroup
	for _, p := range w.living() {
		for _, path := range slices.Sorted(slices.Values(w.opts.Paths)) {
			all.Go(func() {
				if err := p.do(Ask{How: "lock", Path: path, Hold: w.opts.Timeout / 16, Wait: 8 * w.opts.Timeout}); err != nil {
					w.failf("%s in the last round, with everything healed: %w", p.name, err)
				}
			})
		}
	}
	all.Wait()
}
