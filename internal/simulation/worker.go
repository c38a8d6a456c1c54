// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// A worker runs its steps one after the other.
type worker struct {
	process *Process
	steps   []Step
	done    chan struct{}
}

// startWorkers starts the workers of a plan.
func (p Plan) startWorkers(began time.Time, processes []*Process) []*worker {
	byName := map[string]*worker{}
	var names []string
	for _, s := range p.Steps {
		process, _, isWorker := strings.Cut(s.Target, ".")
		if !isWorker {
			continue
		}
		if byName[s.Target] == nil {
			n, _ := strconv.Atoi(process[1:])
			byName[s.Target] = &worker{process: processes[n], done: make(chan struct{})}
			names = append(names, s.Target)
		}
		byName[s.Target].steps = append(byName[s.Target].steps, s)
	}
	workers := make([]*worker, 0, len(names))
	for _, name := range names {
		w := byName[name]
		workers = append(workers, w)
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
		var held *lock.HeldError
		if err == nil || operation.Wait > 0 && errors.Is(err, context.DeadlineExceeded) || operation.Kind == "try" && errors.As(err, &held) {
			continue
		}
		w.process.world.problemf("%v: %w", s, err)
	}
}

// await waits for the workers of processes that have not crashed, and reports whether they ended within patience.
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
			w.problemf("a worker of %s is still busy %v after all faults were healed", worker.process.name, patience)
			return false
		}
	}
	return true
}

// patience bounds, in fake time, what is left to do after all faults are healed.
const patience = 5 * time.Minute
