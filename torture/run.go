// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
	"github.com/lockkeeper/lockkeeper/torture/register"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// A run is one run of the torture.
type run struct {
	opts   *Options
	time   clock.Scale
	clocks clocks
	result *Result

	servers      Servers
	ensemble     *docker.Ensemble // the servers, if they are ZooKeeper's; else nil
	operator     *operator        // nil without an ensemble
	registers    *register.Registers
	contenders   []*contender
	recorder     recorder
	reservations reservations

	picks      atomic.Int64
	processes  atomic.Int64
	running    sync.WaitGroup // the contenders' processes
	background sync.WaitGroup // faults and logging in progress

	mu sync.Mutex // guards result.Problems and result.Faults
}

// problemf records a problem that is not a finding about the history, such as a failure of the harness.
func (r *run) problemf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.result.Problems = append(r.result.Problems, text)
	r.mu.Unlock()
	if r.opts.Log != nil { // Check has completed the options of a run
		r.opts.Log("problem: %s", text)
	}
}

func (r *run) contender(number string) (*contender, error) {
	for _, c := range r.contenders {
		if fmt.Sprint(c.number) == number {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no contender %q", number)
}

// A LeftError reports that something that a run created could not be removed.
type LeftError struct{ Err error }

func (e *LeftError) Error() string {
	return fmt.Sprintf("torture: clean up: %v", e.Err)
}

// Unwrap returns the cause.
func (e *LeftError) Unwrap() error { return e.Err }

// Run runs the torture. It starts an ensemble and contenders, injects the faults of the plan, heals them, stops the contenders
// and judges the history. The result has the verdict and the history. An error is a failure of the harness. If the harness
// fails once the contenders have had their time, the result reports the failure and has the verdict Broken, so that no history
// is lost. When ctx ends, the run ends with ctx's cause and without a result. Run leaves nothing behind in any case, or
// returns a LeftError that says what; that error may come with a result.
func Run(ctx context.Context, opts *Options) (_ *Result, err error) {
	if err := opts.Check(); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	if opts.Plan == nil {
		opts.Plan = Draw(opts)
	}
	s := &run{opts: opts, time: clock.Start(), result: newResult(opts)}
	s.clocks.read(s.time)
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	defer func() { err = errors.Join(err, s.cleanUp()) }()
	if err := s.execute(ctx); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	s.judge()
	return s.result, nil
}

// start starts everything that a run needs. On error, nothing is left.
func (r *run) start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, r.cleanUp())
		}
	}()
	if rival := r.opts.Rival; rival != nil && rival.Servers != nil {
		r.servers, err = rival.Servers(ctx)
	} else {
		err = r.startEnsemble(ctx)
	}
	if err != nil {
		return err
	}
	r.result.On = r.servers.About()
	// The time of the run begins here.
	r.time = clock.Start()
	r.clocks = clocks{}
	r.clocks.read(r.time)
	r.recorder.add(history.Event{
		Kind: history.Run, Timeout: history.Instant(r.opts.Timeout), Tick: history.Instant(r.opts.tick()),
		Grace: history.Instant(worker.Gap(r.opts.Timeout)), Blur: history.Instant(time.Millisecond), // the logs' resolution
		Text: fmt.Sprintf("%d servers, %d contenders with %d clients each, seed %d", len(r.servers.All()), r.opts.Contenders,
			r.opts.Clients, r.opts.Seed),
	})
	if r.registers, err = register.New(r.time, r.recorder.add, r.opts.tokenless()); err != nil {
		return err
	}
	for i := range r.opts.Contenders {
		c := &contender{run: r, number: i + 1, clients: r.opts.Clients, waiters: r.opts.Waiters, holds: r.opts.Holds}
		r.contenders = append(r.contenders, c)
		for _, server := range r.servers.All() {
			p, err := docker.NewProxy(server.Addr())
			if err != nil {
				return err
			}
			c.proxies = append(c.proxies, p)
		}
		if err := c.start(); err != nil {
			return err
		}
	}
	r.opts.Log("%d contenders started", len(r.contenders))
	return nil
}

// startEnsemble starts ZooKeeper's servers.
func (r *run) startEnsemble(ctx context.Context) (err error) {
	servers := &docker.Options{
		Servers: r.opts.Servers, Tick: r.opts.tick(), SyncLimit: 4, Log: r.opts.Log, DiskSize: r.opts.diskSize(),
		Properties: map[string]string{
			// The logs are read when the run is over. They are complete in any case, because nothing purges them; a snapshot
			// after each hundred thousand transactions would only take time on a slow machine.
			"zookeeper.snapCount": "100000000", "zookeeper.preAllocSize": "1024",
			// ZooKeeper 3.8.0 can lose committed transactions when a server rejoins and is sent the transactions that it lacks:
			// ZOOKEEPER-4712 and 4785. No lock survives that. A server that gets a snapshot is not affected.
			"zookeeper.forceSnapshotSync": "true",
		},
	}
	for _, name := range r.opts.Faults {
		if name == "counter" {
			servers.Counters = map[string]int32{countedPath: counterPlanted}
		}
	}
	if r.ensemble, err = docker.Run(ctx, servers); err != nil {
		return err
	}
	r.servers = ensemble{Ensemble: r.ensemble}
	answer, err := r.ensemble.Servers()[0].FourLetter(ctx, "srvr")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(answer, "\n")
	r.result.ZooKeeper = version(first)
	r.servers = ensemble{r.ensemble, "ZooKeeper " + r.result.ZooKeeper}
	r.operator = newOperator(r.ensemble.Addrs())
	r.operator.expireSession = r.ensemble.Expire
	return nil
}

// cleanUp stops and removes everything that the run started.
func (r *run) cleanUp() error {
	var errs []error
	for _, c := range r.contenders {
		c.kill() // it may have ended already
	}
	r.running.Wait()
	r.background.Wait()
	for _, c := range r.contenders {
		for _, p := range c.proxies {
			errs = append(errs, p.Close())
		}
	}
	if r.registers != nil {
		errs = append(errs, r.registers.Close())
	}
	if r.servers != nil {
		errs = append(errs, r.servers.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return &LeftError{err}
	}
	return nil
}

// execute is the run proper, from the first fault until everything has stopped.
func (r *run) execute(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.background.Go(func() { r.progress(ctx) })
	r.runNemesis(ctx)
	if err := r.until(ctx, r.opts.Duration); err != nil {
		return err
	}
	r.opts.Log("all faults are healed; stopping contenders")
	steps := []func(context.Context) error{r.recover, r.stopContenders, r.probe}
	if r.isZooKeeper() {
		steps = append(steps, r.clear, r.agree, r.countUp)
	}
	steps = append(steps, r.end)
	if r.isZooKeeper() {
		steps = append(steps, r.order)
	}
	for _, step := range steps {
		if err := r.continueAfter(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// continueAfter takes a step after the contention. A failure is a problem of the run, and no reason to discard its history,
// perhaps an hour of it. Only an interruption is an error: there is no result then.
func (r *run) continueAfter(ctx context.Context, step func(context.Context) error) error {
	err := step(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.problemf("%v", err)
	}
	return nil
}

// stopContenders makes the contenders stop. Each client must be granted something once more before it ends; a client that is
// not is reported.
func (r *run) stopContenders(ctx context.Context) error {
	for _, c := range r.contenders {
		c.tell(worker.Stop)
	}
	var stopping sync.WaitGroup
	for _, c := range r.contenders {
		stopping.Go(func() { c.stop(ctx, 12*r.opts.Timeout+20*time.Second) })
	}
	stopping.Wait()
	return nil
}

// end closes the history. It reads the clocks once more, as the last reading by which the servers' logs are dated.
func (r *run) end(context.Context) error {
	r.recorder.add(history.Event{At: r.time.Now(), Kind: history.End})
	r.clocks.read(r.time)
	return nil
}

// order adds ZooKeeper's commit order to the history. If that fails, the logs that can be read are kept for investigation.
func (r *run) order(ctx context.Context) error {
	err := r.readCommitOrder(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("read the commit order: findings about nodes mean nothing without it: %w", err),
			r.keepLogs(ctx))
	}
	if r.opts.tokenless() {
		return r.recorder.replaceTokens()
	}
	return nil
}

// keepLogs copies the logs of all servers that have any, if Options.Logs is set.
func (r *run) keepLogs(ctx context.Context) error {
	if r.opts.Logs == "" {
		return nil
	}
	var errs []error
	for _, server := range r.ensemble.Servers() {
		own := filepath.Join(r.opts.Logs, fmt.Sprint(server.ID()))
		if err := os.MkdirAll(own, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("transaction logs: %w", err))
			continue
		}
		errs = append(errs, server.SaveLogs(ctx, own))
	}
	return errors.Join(errs...)
}

// until waits until the given time since the beginning.
func (r *run) until(ctx context.Context, at time.Duration) error {
	select {
	case <-time.After(at - time.Duration(r.time.Now())):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// progress logs the state of the run every 10 s, until ctx ends.
func (r *run) progress(ctx context.Context) {
	every := time.NewTicker(10 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		r.clocks.read(r.time)
		r.mu.Lock()
		faults := 0
		for _, n := range r.result.Faults {
			faults += n.Injected
		}
		problems := len(r.result.Problems)
		r.mu.Unlock()
		w := r.registers.Counts()
		r.opts.Log("%v of %v: %d grants, %d faults, %d writes, %d of them stale, %d rejected; %d problems",
			time.Duration(r.time.Now()).Round(time.Second), r.opts.Duration, r.recorder.granted(), faults, w.All, w.Stale,
			w.Refused, problems)
	}
}

var goVersion = runtime.Version()

// version returns the version in the first line of a server's answer: "Zookeeper version: 3.8.0-5a02a05, built on …".
func version(line string) string {
	v, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return v
}
