// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Run runs the plan in a synctest bubble. It returns the history, and the problems that are no findings about the history.
func (p Plan) Run() ([]history.Event, error) {
	w, err := newWorld(p.Options, p.String())
	if err != nil {
		return nil, err
	}
	processes, err := w.start(p)
	if err != nil {
		w.problemf("%w", err)
		w.close()
		return w.recorder.Events(), errors.Join(w.problems...)
	}
	for i := range p.Replicas {
		w.startReplicas(replicaName(i))
	}
	began := time.Now()
	workers := p.startWorkers(w, began, processes)
	if p.Crowd > 0 {
		workers = append(workers, crowd(processes[0], p.Crowd, began.Add(p.Length)))
	}
	for _, s := range p.Steps {
		if s.ofCaller() || strings.Contains(s.Target, ".") {
			continue
		}
		time.Sleep(time.Until(began.Add(s.At)))
		w.injectStep(s, processes)
	}
	time.Sleep(time.Until(began.Add(p.Length)))
	w.heal()
	if w.observing(func() bool { return w.await(workers) }) {
		w.calling.Wait() // for the replicas that were replaced, too
		w.lastRound()
		w.lastCalls()
		w.settle()
	}
	w.close()
	return w.recorder.Events(), errors.Join(w.problems...)
}

// start starts the processes of a plan at the same time.
func (w *World) start(plan Plan) ([]*Process, error) {
	processes, errs := make([]*Process, plan.Processes), make([]error, plan.Processes)
	var starting sync.WaitGroup
	for i := range processes {
		starting.Go(func() {
			processes[i], errs[i] = w.process("c"+strconv.Itoa(i), func(p *Process, _ *recipes.Options) {
				if server, only := plan.OnlyServer[i]; only {
					p.servers = p.servers[server : server+1]
				}
			})
		})
	}
	starting.Wait()
	return processes, errors.Join(errs...)
}

// injectStep injects the fault of a step. It records a fault that is not possible at the moment as a Note.
func (w *World) injectStep(s Step, processes []*Process) {
	var err error
	switch n, _ := strconv.Atoi(s.Target[1:]); s.Target[0] {
	case 'z':
		err = w.inject(s.Action)
	case 'r':
		err = w.replica(s.Target).inject(s.Action)
	default:
		err = processes[n].inject(s.Action)
	}
	if err != nil {
		w.recorder.Add(history.Event{Kind: history.Note, Text: fmt.Sprintf("%v: %v", s, err)})
	}
}

// lastRound has every process that has not crashed acquire each lock once more, which must succeed after any faults.
func (w *World) lastRound() {
	var all sync.WaitGroup
	for _, p := range w.alive() {
		for _, path := range slices.Sorted(slices.Values(w.opts.Paths)) {
			all.Go(func() {
				if err := p.do(Operation{Kind: "lock", Path: path, Hold: w.opts.Timeout / 16, Wait: 8 * w.opts.Timeout}); err != nil {
					w.problemf("last round of %s, with all faults healed: %w", p.name, err)
				}
			})
		}
	}
	all.Wait()
}

// lastCalls has a caller acquire each lock once more at each replica that has not crashed, which must succeed after any faults.
func (w *World) lastCalls() {
	w.mu.Lock()
	names := slices.Sorted(maps.Keys(w.replicas))
	w.mu.Unlock()
	var calls sync.WaitGroup
	for _, name := range names {
		if w.replica(name).crashed() {
			continue
		}
		for _, path := range w.opts.Paths {
			calls.Go(func() {
				h := w.caller("last " + name).acquire(Call{Path: path, Replicas: all(name), Wait: 8 * w.opts.Timeout})
				if h == nil {
					w.problemf("last call of %s at %s, with all faults healed: not granted", path, name)
				}
				h.work(w.fraction(16), false)
				h.giveUp(true, 0)
			})
		}
	}
	calls.Wait()
}
