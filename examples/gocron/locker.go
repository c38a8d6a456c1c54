// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// errRunning is why a job does not run: its last run on this pod has not returned, although it may have lost its lock.
var errRunning = errors.New("the last run has not returned")

// A locker is a gocron.Locker: each run of a job holds a lock. Pass one to each scheduler, by gocron.WithDistributedLocker.
// The lock's path is the job's name below parent. Give each job a name: the default is the name of its function, which is
// the same for all jobs that locker.job returns.
//
// A pod whose clock lags runs the job again after a run that was shorter than the lag. Package schedule prevents that: it
// stores each activation.
type locker struct {
	client *recipes.Client
	parent string

	mu   sync.Mutex
	runs map[string]*run // by the job's name; guarded by mu
	ran  sync.WaitGroup  // of runs
}

var (
	_ gocron.Locker = (*locker)(nil)
	_ gocron.Lock   = (*run)(nil)
)

// A run is one run of a job.
type run struct {
	locker *locker
	name   string
	hold   *lock.Hold // set before gocron calls the job
}

// Lock takes the lock of the job of that name if it is free, and returns an error otherwise. Then gocron skips this run, and
// passes the error to gocron.AfterLockError.
func (l *locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	r := &run{locker: l, name: name}
	if err := l.add(r); err != nil {
		return nil, err
	}
	mu, err := lock.New(l.client, l.parent+"/"+url.PathEscape(name), nil)
	if err == nil {
		r.hold, err = mu.TryLock(ctx)
	}
	if err != nil {
		l.remove(r)
		return nil, err
	}
	return r, nil
}

func (l *locker) add(r *run) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[r.name] != nil {
		return fmt.Errorf("job %q: %w", r.name, errRunning)
	}
	if l.runs == nil {
		l.runs = map[string]*run{}
	}
	l.runs[r.name] = r
	l.ran.Add(1)
	return nil
}

func (l *locker) remove(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, r.name)
	l.ran.Done()
}

// Wait waits until all runs have returned. Call it after the scheduler has shut down and before the client is closed: gocron
// waits for a limited time, and Close releases the lock of a run that continues.
func (l *locker) Wait() { l.ran.Wait() }

// Unlock releases the lock, also after ctx is done. It logs its error, which gocron discards.
func (r *run) Unlock(ctx context.Context) error {
	defer r.locker.remove(r)
	err := r.hold.Unlock(ctx)
	if err != nil {
		slog.Warn("unlock job", "name", r.name, "err", err)
	}
	return err
}

// job returns the function for gocron.NewTask of the job of that name. It calls f with a context that is also done when the
// lock is lost. gocron itself does not cancel a job then, and has no token. f must return soon, because another pod can take
// the lock, and must send hold.Token with its writes: a job that is paused does not see that its context is done.
func (l *locker) job(name string, f func(ctx context.Context, hold *lock.Hold) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		l.mu.Lock()
		r := l.runs[name]
		l.mu.Unlock()
		if r == nil {
			return fmt.Errorf("job %q: no lock: pass its name to gocron.WithName, and the locker to its scheduler", name)
		}
		ctx, cancel := r.hold.Context(ctx)
		defer cancel()
		return f(ctx, r.hold)
	}
}
