// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A worker runs its steps one after the other: the steps of a process, or of a caller.
type worker struct {
	process *Process
	caller  *Caller // nil: of a process
	steps   []Step
	done    chan struct{}
}

// startWorkers starts the workers of a plan, and its callers.
func (p Plan) startWorkers(world *World, began time.Time, processes []*Process) []*worker {
	byName := map[string]*worker{}
	var names []string
	for _, s := range p.Steps {
		process, _, isWorker := strings.Cut(s.Target, ".")
		if !isWorker && !s.ofCaller() {
			continue
		}
		if byName[s.Target] == nil {
			w := &worker{done: make(chan struct{})}
			if s.ofCaller() {
				w.caller = world.caller(s.Target)
			} else {
				n, _ := strconv.Atoi(process[1:])
				w.process = processes[n]
			}
			byName[s.Target] = w
			names = append(names, s.Target)
		}
		byName[s.Target].steps = append(byName[s.Target].steps, s)
	}
	workers := make([]*worker, 0, len(names))
	for _, name := range names {
		w := byName[name]
		workers = append(workers, w)
		if w.caller != nil {
			world.calling.Go(func() { w.call(began) })
			continue
		}
		w.process.working.Go(func() { w.work(began) })
	}
	return workers
}

// work runs the steps of the worker, until its process crashes or is closed.
func (w *worker) work(began time.Time) {
	defer close(w.done)
	for _, s := range w.steps {
		time.Sleep(time.Until(began.Add(s.At)))
		operation, err := s.operation()
		if err == nil && w.process.waitRunning() {
			err = w.process.do(operation)
		}
		if w.process.crashed() || w.process.ctx.Err() != nil {
			return
		}
		if err != nil && !operation.mayFail(err) {
			w.process.world.problemf("%v: %w", s, err)
		}
	}
}

// mayFail reports whether the error is one of those that the recipes document for the operation.
func (o Operation) mayFail(err error) bool {
	var held *lock.HeldError
	switch {
	case o.Wait > 0 && errors.Is(err, context.DeadlineExceeded):
		return true
	case strings.HasPrefix(o.Kind, "try") && errors.As(err, &held):
		return true
	}
	// A lock that is revoked while its holder waits for another one.
	return strings.Contains(o.Path, ",") && errors.Is(err, recipes.ErrRevoked)
}

// call makes the calls of a caller.
func (w *worker) call(began time.Time) {
	defer close(w.done)
	for _, s := range w.steps {
		time.Sleep(time.Until(began.Add(s.At)))
		call, err := parseCall(s.Action)
		w.caller.world.must(err)
		w.caller.use(call)
	}
}

// name returns the name of the worker's process or caller.
func (w *worker) name() string {
	if w.caller != nil {
		return w.caller.name
	}
	return w.process.name
}

// await waits for the callers, and for the workers of processes that have not crashed, and reports whether they ended within
// patience.
func (w *World) await(workers []*worker) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, worker := range workers {
		if worker.process != nil && worker.process.crashed() {
			continue
		}
		select {
		case <-worker.done:
		case <-timer.C:
			w.problemf("a worker of %s is still busy %v after all faults were healed", worker.name(), patience)
			return false
		}
	}
	return true
}
