// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// Run starts an ensemble and contenders, injects the faults of the plan, heals them, stops the contenders and checks the
// history. The result contains the verdict and the history.
//
// An error is a failure of the harness. If the harness fails after the last fault was healed, Run returns a result all the
// same, so that no history is lost: the result reports the failure and has the verdict Broken. When ctx ends, Run returns the
// cause of ctx and no result. Run removes everything that it created. If it cannot, it returns a LeftError, which may come
// with a result.
func Run(ctx context.Context, opts *Options) (_ *verdict.Result, err error) {
	if err := opts.Check(); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	if opts.Plan == nil {
		opts.Plan = GeneratePlan(opts)
	}
	r := &run{opts: opts, time: clock.Start(), result: newResult(opts)}
	if _, err := trees(); err != nil {
		opts.Log("the document will be no evidence, because it does not name its code: %v", err)
	}
	r.clocks.read(r.time)
	if err := r.start(ctx); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	defer func() { err = errors.Join(err, r.cleanUp()) }()
	if err := r.execute(ctx); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	r.judge()
	return r.result, nil
}

// judge completes the result with the history, the counts and the verdict.
func (r *run) judge() {
	result := r.result
	result.History, result.Writes = r.recorder.history(), r.registers.Counts()
	result.Duration = history.Instant(time.Duration(result.History[len(result.History)-1].At).Truncate(time.Second))
	result.Judge()
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
	// The run begins here.
	r.time = clock.Start()
	r.clocks = clocks{}
	r.clocks.read(r.time)
	path, delay := r.opts.lockDelay()
	r.recorder.add(history.Event{
		Path: path, Delay: delay,
		Kind: history.Run, Timeout: history.Instant(r.opts.Timeout), Tick: history.Instant(r.opts.tick()),
		Grace: history.Instant(worker.Gap(r.opts.Timeout)), Blur: history.Instant(time.Millisecond), // the logs' resolution
		Text: fmt.Sprintf("%d servers, %d contenders with %d clients each, seed %d", len(r.servers.All()), r.opts.Contenders,
			r.opts.Clients, r.opts.Seed),
	})
	if r.isZooKeeper() {
		if r.quorum, err = observeQuorum(r.time, r.ensemble.Addrs(), r.opts.Timeout); err != nil {
			return err
		}
	}
	if r.registers, err = register.New(r.time, r.recorder.add, r.opts.tokenless()); err != nil {
		return err
	}
	if err := r.startReplicas(ctx); err != nil {
		return err
	}
	for i := range r.opts.Contenders {
		c := &contender{run: r, number: i + 1, clients: r.opts.Clients, waiters: r.opts.Waiters, holds: r.opts.Holds}
		c.caller = len(r.replicas) > 0 && c.number%2 == 0
		r.contenders = append(r.contenders, c)
		if err := errors.Join(c.connect(), c.start()); err != nil {
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
			// No snapshots: they would only take time on a slow machine. Nothing purges the logs, so they are complete when the
			// run is over.
			"zookeeper.snapCount": "100000000", "zookeeper.preAllocSize": "1024",
			// ZooKeeper 3.8.0 can lose committed transactions when a server rejoins and is sent the transactions that it lacks:
			// ZOOKEEPER-4712 and 4785. No lock can tolerate that. A server that is sent a snapshot is not affected.
			"zookeeper.forceSnapshotSync": "true",
		},
	}
	for _, name := range r.opts.Faults {
		if name == "counter" {
			servers.Counters = map[string]int32{r.opts.countedPath(): counterPlanted}
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
	for _, p := range r.replicas {
		errs = append(errs, p.cleanUp())
	}
	r.running.Wait()
	r.background.Wait()
	if r.quorum != nil {
		r.quorum.close()
	}
	for _, c := range r.contenders {
		for _, p := range c.proxies {
			errs = append(errs, p.Close())
		}
	}
	if r.credentials != nil {
		errs = append(errs, r.credentials.remove())
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

// version returns the version in the first line of a server's answer: "Zookeeper version: 3.8.0-5a02a05, built on …".
func version(line string) string {
	v, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return v
}

// A LeftError reports that something that a run created could not be removed.
type LeftError struct{ Err error }

func (e *LeftError) Error() string {
	return fmt.Sprintf("torture: clean up: %v", e.Err)
}

// Unwrap returns the cause.
func (e *LeftError) Unwrap() error { return e.Err }
