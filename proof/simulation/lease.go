// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// startReplicas starts processes that are replicas of the lock service.
func (w *World) startReplicas(names ...string) map[string]*Process {
	processes := w.connect(names...)
	for _, p := range processes {
		w.serve(p)
	}
	return processes
}

// serve makes a process that has connected the replica with its name.
func (w *World) serve(p *Process) {
	if p.client != nil {
		var err error
		p.replica, err = lease.New(p.client, &lease.Options{Logger: slog.New(slog.DiscardHandler)})
		w.must(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas[p.name] = p
}

// replica returns the newest process with that name which is a replica.
func (w *World) replica(name string) *Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[name]
}

// replace crashes a replica and starts another one under its name.
func (p *Process) replace() {
	p.crash(true)
	p.world.calling.Go(func() {
		next, err := p.world.process(p.name, nil)
		if err != nil {
			p.world.must(err)
			return
		}
		p.world.serve(next)
	})
}

// get has the replica read a queue, as the service does for GET: the replica observes the leases.
func (p *Process) get(path string) (lease.Status, error) {
	return send(p.world, delivery{replica: p.name, patience: p.world.opts.Timeout}, func(ctx context.Context, r *lease.Replica, _ time.Time) (lease.Status, error) {
		return r.Status(ctx, path)
	})
}

// force has an administrator revoke the holder of a path, and reports whether the replica answers that it is notified.
func (p *Process) force(path string) (notified bool) {
	for range 5 {
		s, err := p.get(path)
		if err != nil {
			continue
		}
		forced, err := send(p.world, delivery{replica: p.name, patience: p.world.opts.Timeout}, func(ctx context.Context, r *lease.Replica, _ time.Time) (lease.Forced, error) {
			return r.ForceRelease(ctx, lease.Force{Path: path, Token: s.Contenders[0].Token, By: "operator", Reason: "stuck"})
		})
		var front *lease.FrontError
		switch {
		case err == nil:
			return forced.Notified
		case transient(err), errors.As(err, &front), errors.Is(err, lease.ErrNotFound):
		case errors.Is(err, lease.ErrCannotNotify):
			return false
		default:
			p.must(err)
		}
	}
	return false
}

// drain waits until no contender is left. Each replica reads the queues meanwhile, because a lease that no client knows of does
// not end.
func (w *World) drain() {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(w.opts.Timeout) {
		left := 0
		for _, path := range w.opts.Paths {
			names, _ := w.ensemble.Children(path) // none if the queue does not exist
			left += len(names)
		}
		if left == 0 {
			return
		}
		w.observeLeases()
	}
	w.problemf("contenders are left %v after the last caller has stopped", patience)
}

// observing runs f, and then drains the queues if there are replicas. Meanwhile the replicas read the queues: a waiter
// behind several leases that no client knows of would wait for one after the other.
func (w *World) observing(f func() bool) bool {
	w.mu.Lock()
	replicas := len(w.replicas)
	w.mu.Unlock()
	if replicas == 0 {
		return f()
	}
	done := make(chan struct{})
	w.calling.Go(func() {
		ticker := time.NewTicker(w.opts.Timeout)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.observeLeases()
			case <-done:
				return
			}
		}
	})
	ok := f()
	close(done)
	if ok {
		w.drain()
	}
	return ok
}

// observeLeases has each replica that has not crashed read the queues, without waiting for the answers.
func (w *World) observeLeases() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.replicas {
		for _, path := range w.opts.Paths {
			w.calling.Go(func() { _, _ = p.get(path) })
		}
	}
}

// recordRenewed records a new version of a contender's record.
func (w *World) recordRenewed(c zktest.Commit, e history.Event) {
	r, ok := history.RecordOf(c.Data)
	if !ok {
		return
	}
	if r.Revoked {
		w.mu.Lock()
		w.revoked[c.Path] = true
		w.mu.Unlock()
	}
	if r.Shared {
		downgraded := e
		downgraded.Kind = history.Downgraded
		w.recorder.AddAt(c.Time, downgraded)
	}
	w.recorder.AddAt(c.Time, r.Renewed(e))
}

// wasRevoked reports whether the record of a contender's node is revoked.
func (w *World) wasRevoked(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revoked[path]
}
