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
	"slices"
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

// A run is a run.
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
	background sync.WaitGroup // faults that go on

	mu sync.Mutex // guards result.Amiss and result.Faults
}

// problemf notes what must not be, and is no matter of the history.
func (r *run) problemf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.result.Problems = append(r.result.Problems, text)
	r.mu.Unlock()
	if r.opts.Log != nil { // Check has completed the options of a run
		r.opts.Log("amiss: %s", text)
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

// A LeftError says that something that a run has made could not be removed.
type LeftError struct{ Err error }

func (e *LeftError) Error() string {
	return fmt.Sprintf("torture: removing what the run has made: %v", e.Err)
}

// Unwrap returns the cause.
func (e *LeftError) Unwrap() error { return e.Err }

// Run runs a torture. It starts an ensemble and contenders, breaks them by the plan, heals and stops them, and judges what
// came of it. The result has the verdict and the history; an error is one of the harness: what it could not do. What goes
// wrong with the harness once the contenders have had their time is told in the result, which is broken then, so that no
// history is lost. When ctx ends, so does the run, with ctx's cause and without a result. Nothing is left behind in any
// case, or a LeftError says what: it may come with a result.
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

// start puts everything in place. On error nothing is left.
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
	// From here on it is the run's time.
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
	r.opts.Log("%d contenders begin", len(r.contenders))
	return nil
}

// startEnsemble starts ZooKeeper's servers.
func (r *run) startEnsemble(ctx context.Context) (err error) {
	servers := &docker.Options{
		Servers: r.opts.Servers, Tick: r.opts.tick(), SyncLimit: 4, Log: r.opts.Log, DiskSize: r.opts.diskSize(),
		Properties: map[string]string{
			// The logs are read when all is over. They are whole in any case, as nothing purges them; a snapshot for each
			// hundred thousand transactions would only take time from a machine that has little.
			"zookeeper.snapCount": "100000000", "zookeeper.preAllocSize": "1024",
			// ZooKeeper 3.8.0 can lose what it has committed when a server rejoins and is handed the transactions that it lacks:
			// ZOOKEEPER-4712 and 4785. No lock outlives that. Who gets a snapshot is spared.
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
	return nil
}

// cleanUp removes everything.
func (r *run) cleanUp() error {
	var errs []error
	for _, c := range r.contenders {
		c.kill() // that it has ended is fine
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

// execute is the run, from the first fault until everything stands still.
func (r *run) execute(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.background.Go(func() { r.progress(ctx) })
	r.runNemesis(ctx)
	if err := r.until(ctx, r.opts.Duration); err != nil {
		return err
	}
	r.opts.Log("everything is healed; contenders are told to stop")
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

// continueAfter takes a step after the contention. What it could not do is amiss, and no reason to throw away what has happened
// until then, an hour of it perhaps. Only an interruption is an error: nobody wants a result then.
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

// stopContenders has the contenders stop. Each client is granted something once more before it ends: who cannot be, is told of.
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

// end closes the history. The clocks are read once more: it is the last reading by which the servers' logs are dated.
func (r *run) end(context.Context) error {
	r.recorder.add(history.Event{At: r.time.Now(), Kind: history.End})
	r.clocks.read(r.time)
	return nil
}

// order tells what the ensemble ordered. Where that cannot be told, the logs are kept as far as they can be read: they are
// what a person would look at then.
func (r *run) order(ctx context.Context) error {
	err := r.readCommitOrder(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("what the servers have ordered is not known, and findings about nodes mean nothing: %w", err),
			r.keepLogs(ctx))
	}
	if r.opts.tokenless() {
		return r.recorder.replaceTokens()
	}
	return nil
}

// keepLogs copies the logs of all servers that have any, if they are to be kept.
func (r *run) keepLogs(ctx context.Context) error {
	if r.opts.Logs == "" {
		return nil
	}
	var errs []error
	for _, server := range r.ensemble.Servers() {
		own := filepath.Join(r.opts.Logs, fmt.Sprint(server.ID))
		if err := os.MkdirAll(own, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("transaction logs: %w", err))
			continue
		}
		errs = append(errs, server.SaveLogs(ctx, own))
	}
	return errors.Join(errs...)
}

// until waits until that long after the beginning.
func (r *run) until(ctx context.Context, at time.Duration) error {
	select {
	case <-time.After(at - time.Duration(r.time.Now())):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// logBound is how long it may take to ask a server for the end of its log.
const logBound = 10 * time.Second

// recover waits until all servers serve.
func (r *run) recover(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("a minute after the last fault was taken back"))
	defer cancel()
	err := r.servers.WaitServing(waiting)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for i, server := range r.servers.All() {
		asking, cancel := context.WithTimeout(ctx, logBound)
		r.opts.Log("server %d:\n%s", i+1, server.Log(asking))
		cancel()
	}
	return fmt.Errorf("the servers have not come back: %w", err)
}

// clear waits until no node of a contender is left, but not for longer than those of contenders that were killed, or whose
// client could not be told, may stay.
func (r *run) clear(ctx context.Context) error {
	for giveUp := r.time.Now() + history.Instant(3*r.opts.Timeout); ; {
		leftNodes, err := r.operator.leftNodes(ctx, r.opts.paths())
		if err != nil && r.time.Now() > giveUp+history.Instant(time.Minute) {
			return err
		}
		if err == nil && (len(leftNodes) == 0 || r.time.Now() > giveUp) {
			return nil
		}
		if err := r.until(ctx, time.Duration(r.time.Now())+200*time.Millisecond); err != nil {
			return err
		}
	}
}

// agree looks whether all servers have the same nodes, as they must. Parents are reaped meanwhile, so it looks again for a
// while.
func (r *run) agree(ctx context.Context) error {
	for giveUp := r.time.Now() + history.Instant(2*r.opts.Timeout); ; {
		differ, err := r.operator.differ(ctx, r.opts.paths())
		if err == nil && differ == "" {
			return nil
		}
		if r.time.Now() > giveUp {
			if err == nil {
				r.problemf("the servers differ from each other, which is their own fault, and nothing can be relied upon then: %s", differ)
			}
			return err
		}
		if err := r.until(ctx, time.Duration(r.time.Now())+200*time.Millisecond); err != nil {
			return err
		}
	}
}

// countUp notes how far the counter has come that was planted near its end.
func (r *run) countUp(ctx context.Context) error {
	if !slices.Contains(r.opts.Faults, "counter") {
		return nil
	}
	next, err := r.operator.counter(ctx, countedPath)
	if err != nil {
		return err
	}
	r.result.Counter = next
	return nil
}

// progress says how it goes, until ctx ends.
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
		problemf := len(r.result.Problems)
		r.mu.Unlock()
		w := r.registers.Counts()
		r.opts.Log("%v of %v: %d grants, %d faults, %d writes, %d of them late, %d refused; %d amiss",
			time.Duration(r.time.Now()).Round(time.Second), r.opts.Duration, r.recorder.granted(), faults, w.All, w.Stale,
			w.Refused, problemf)
	}
}

var goVersion = runtime.Version()

// version is that in the first line of a server's answer: "Zookeeper version: 3.8.0-5a02a05, built on …".
func version(line string) string {
	v, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return v
}
