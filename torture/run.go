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

// A stage is a run.
type stage struct {
	opts   *Options
	time   clock.Scale
	clocks clocks
	result *Result

	servers    Servers
	ensemble   *docker.Ensemble // the servers, if they are ZooKeeper's; else nil
	operator   *operator        // nil without an ensemble
	registers  *register.Registers
	contenders []*contender
	journal    journal
	hospital   hospital

	picks   atomic.Int64
	lives   atomic.Int64
	living  sync.WaitGroup // the contenders' processes
	errands sync.WaitGroup // faults that go on

	mu sync.Mutex // guards result.Amiss and result.Faults
}

// amiss notes what must not be, and is no matter of the history.
func (s *stage) amiss(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	s.result.Amiss = append(s.result.Amiss, text)
	s.mu.Unlock()
	if s.opts.Log != nil { // Check has completed the options of a run
		s.opts.Log("amiss: %s", text)
	}
}

func (s *stage) contender(number string) (*contender, error) {
	for _, c := range s.contenders {
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
	s := &stage{opts: opts, time: clock.Start(), result: newResult(opts)}
	s.clocks.read(s.time)
	if err := s.start(ctx); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	defer func() { err = errors.Join(err, s.strike()) }()
	if err := s.act(ctx); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	s.judge()
	return s.result, nil
}

// start puts everything in place. On error nothing is left.
func (s *stage) start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.strike())
		}
	}()
	if r := s.opts.Rival; r != nil && r.Servers != nil {
		s.servers, err = r.Servers(ctx)
	} else {
		err = s.startEnsemble(ctx)
	}
	if err != nil {
		return err
	}
	s.result.On = s.servers.About()
	// From here on it is the run's time.
	s.time = clock.Start()
	s.clocks = clocks{}
	s.clocks.read(s.time)
	s.journal.add(history.Event{
		Kind: history.Run, Timeout: history.Instant(s.opts.Timeout), Tick: history.Instant(s.opts.tick()),
		Grace: history.Instant(worker.Gap(s.opts.Timeout)), Blur: history.Instant(time.Millisecond), // the logs' resolution
		Text: fmt.Sprintf("%d servers, %d contenders with %d clients each, seed %d", len(s.servers.All()), s.opts.Contenders,
			s.opts.Clients, s.opts.Seed),
	})
	if s.registers, err = register.New(s.time, s.journal.add, s.opts.tokenless()); err != nil {
		return err
	}
	for i := range s.opts.Contenders {
		c := &contender{stage: s, number: i + 1, clients: s.opts.Clients, waiters: s.opts.Waiters, holds: s.opts.Holds}
		s.contenders = append(s.contenders, c)
		for _, server := range s.servers.All() {
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
	s.opts.Log("%d contenders begin", len(s.contenders))
	return nil
}

// startEnsemble starts ZooKeeper's servers.
func (s *stage) startEnsemble(ctx context.Context) (err error) {
	servers := &docker.Options{
		Servers: s.opts.Servers, Tick: s.opts.tick(), SyncLimit: 4, Log: s.opts.Log, DiskSize: s.opts.diskSize(),
		Properties: map[string]string{
			// The logs are read when all is over. They are whole in any case, as nothing purges them; a snapshot for each
			// hundred thousand transactions would only take time from a machine that has little.
			"zookeeper.snapCount": "100000000", "zookeeper.preAllocSize": "1024",
			// ZooKeeper 3.8.0 can lose what it has committed when a server rejoins and is handed the transactions that it lacks:
			// ZOOKEEPER-4712 and 4785. No lock outlives that. Who gets a snapshot is spared.
			"zookeeper.forceSnapshotSync": "true",
		},
	}
	for _, name := range s.opts.Faults {
		if name == "counter" {
			servers.Counters = map[string]int32{countedPath: counterPlanted}
		}
	}
	if s.ensemble, err = docker.Run(ctx, servers); err != nil {
		return err
	}
	s.servers = ensemble{Ensemble: s.ensemble}
	answer, err := s.ensemble.Servers()[0].FourLetter(ctx, "srvr")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(answer, "\n")
	s.result.ZooKeeper = version(first)
	s.servers = ensemble{s.ensemble, "ZooKeeper " + s.result.ZooKeeper}
	s.operator = newOperator(s.ensemble.Addrs())
	return nil
}

// strike removes everything.
func (s *stage) strike() error {
	var errs []error
	for _, c := range s.contenders {
		c.kill() // that it has ended is fine
	}
	s.living.Wait()
	s.errands.Wait()
	for _, c := range s.contenders {
		for _, p := range c.proxies {
			errs = append(errs, p.Close())
		}
	}
	if s.registers != nil {
		errs = append(errs, s.registers.Close())
	}
	if s.servers != nil {
		errs = append(errs, s.servers.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return &LeftError{err}
	}
	return nil
}

// act is the run, from the first fault until everything stands still.
func (s *stage) act(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.errands.Go(func() { s.progress(ctx) })
	s.inflict(ctx)
	if err := s.until(ctx, s.opts.Duration); err != nil {
		return err
	}
	s.opts.Log("everything is healed; contenders are told to stop")
	steps := []func(context.Context) error{s.recover, s.dismiss, s.visit}
	if s.isZooKeeper() {
		steps = append(steps, s.clear, s.agree, s.countUp)
	}
	steps = append(steps, s.end)
	if s.isZooKeeper() {
		steps = append(steps, s.order)
	}
	for _, step := range steps {
		if err := s.onward(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// onward takes a step after the contention. What it could not do is amiss, and no reason to throw away what has happened
// until then, an hour of it perhaps. Only an interruption is an error: nobody wants a result then.
func (s *stage) onward(ctx context.Context, step func(context.Context) error) error {
	err := step(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		s.amiss("%v", err)
	}
	return nil
}

// dismiss has the contenders stop. Each client is granted something once more before it ends: who cannot be, is told of.
func (s *stage) dismiss(ctx context.Context) error {
	for _, c := range s.contenders {
		c.tell(worker.Stop)
	}
	var stopping sync.WaitGroup
	for _, c := range s.contenders {
		stopping.Go(func() { c.stop(ctx, 12*s.opts.Timeout+20*time.Second) })
	}
	stopping.Wait()
	return nil
}

// end closes the history. The clocks are read once more: it is the last reading by which the servers' logs are dated.
func (s *stage) end(context.Context) error {
	s.journal.add(history.Event{At: s.time.Now(), Kind: history.End})
	s.clocks.read(s.time)
	return nil
}

// order tells what the ensemble ordered. Where that cannot be told, the logs are kept as far as they can be read: they are
// what a person would look at then.
func (s *stage) order(ctx context.Context) error {
	err := s.ordered(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("what the servers have ordered is not known, and findings about nodes mean nothing: %w", err),
			s.keepLogs(ctx))
	}
	if s.opts.tokenless() {
		return s.journal.retoken()
	}
	return nil
}

// keepLogs copies the logs of all servers that have any, if they are to be kept.
func (s *stage) keepLogs(ctx context.Context) error {
	if s.opts.Logs == "" {
		return nil
	}
	var errs []error
	for _, server := range s.ensemble.Servers() {
		own := filepath.Join(s.opts.Logs, fmt.Sprint(server.ID))
		if err := os.MkdirAll(own, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("transaction logs: %w", err))
			continue
		}
		errs = append(errs, server.SaveLogs(ctx, own))
	}
	return errors.Join(errs...)
}

// until waits until that long after the beginning.
func (s *stage) until(ctx context.Context, at time.Duration) error {
	select {
	case <-time.After(at - time.Duration(s.time.Now())):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// logBound is how long it may take to ask a server for the end of its log.
const logBound = 10 * time.Second

// recover waits until all servers serve.
func (s *stage) recover(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("a minute after the last fault was taken back"))
	defer cancel()
	err := s.servers.WaitServing(waiting)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for i, server := range s.servers.All() {
		asking, cancel := context.WithTimeout(ctx, logBound)
		s.opts.Log("server %d:\n%s", i+1, server.Log(asking))
		cancel()
	}
	return fmt.Errorf("the servers have not come back: %w", err)
}

// clear waits until no node of a contender is left, but not for longer than those of contenders that were killed, or whose
// client could not be told, may stay.
func (s *stage) clear(ctx context.Context) error {
	for giveUp := s.time.Now() + history.Instant(3*s.opts.Timeout); ; {
		left, err := s.operator.left(ctx, s.opts.paths())
		if err != nil && s.time.Now() > giveUp+history.Instant(time.Minute) {
			return err
		}
		if err == nil && (len(left) == 0 || s.time.Now() > giveUp) {
			return nil
		}
		if err := s.until(ctx, time.Duration(s.time.Now())+200*time.Millisecond); err != nil {
			return err
		}
	}
}

// agree looks whether all servers have the same nodes, as they must. Parents are reaped meanwhile, so it looks again for a
// while.
func (s *stage) agree(ctx context.Context) error {
	for giveUp := s.time.Now() + history.Instant(2*s.opts.Timeout); ; {
		differ, err := s.operator.differ(ctx, s.opts.paths())
		if err == nil && differ == "" {
			return nil
		}
		if s.time.Now() > giveUp {
			if err == nil {
				s.amiss("the servers differ from each other, which is their own fault, and nothing can be relied upon then: %s", differ)
			}
			return err
		}
		if err := s.until(ctx, time.Duration(s.time.Now())+200*time.Millisecond); err != nil {
			return err
		}
	}
}

// countUp notes how far the counter has come that was planted near its end.
func (s *stage) countUp(ctx context.Context) error {
	if !slices.Contains(s.opts.Faults, "counter") {
		return nil
	}
	next, err := s.operator.counter(ctx, countedPath)
	if err != nil {
		return err
	}
	s.result.Counter = next
	return nil
}

// progress says how it goes, until ctx ends.
func (s *stage) progress(ctx context.Context) {
	every := time.NewTicker(10 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		s.clocks.read(s.time)
		s.mu.Lock()
		faults := 0
		for _, n := range s.result.Faults {
			faults += n.Injected
		}
		amiss := len(s.result.Amiss)
		s.mu.Unlock()
		w := s.registers.Counts()
		s.opts.Log("%v of %v: %d grants, %d faults, %d writes, %d of them late, %d refused; %d amiss",
			time.Duration(s.time.Now()).Round(time.Second), s.opts.Duration, s.journal.granted(), faults, w.All, w.Stale,
			w.Refused, amiss)
	}
}

var goVersion = runtime.Version()

// version is that in the first line of a server's answer: "Zookeeper version: 3.8.0-5a02a05, built on …".
func version(line string) string {
	v, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return v
}
