// SPDX-License-Identifier: Apache-2.0

// Gocron runs the jobs of github.com/go-co-op/gocron on one of several pods. Two schedulers, as in two pods, have the same job.
// One of them runs it, loses its session during a run, and has that run cancelled; the next run has a greater token. It needs
// Go only:
//
//	go run ./gocron            # gocron's Elector: the leader's scheduler runs all jobs
//	go run ./gocron -locker    # gocron's Locker: a lock for each run of a job
//
// Copy elector.go or locker.go. What gocron leaves to the job, their functions named job add: gocron does not cancel a run
// whose pod has lost the lead or the lock, and knows no token. Without either of them, prefer package schedule, which runs
// each activation at most once over all pods.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func main() {
	locks := flag.Bool("locker", false, "take a lock for each run of a job, instead of an election")
	flag.Parse()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	err := show(ctx, *locks)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gocron:", err)
		os.Exit(1)
	}
}

// show runs two pods until the job has run again after a loss.
func show(ctx context.Context, locks bool) (err error) {
	if flag.NArg() > 0 {
		return errors.New("usage: gocron [-locker]")
	}
	ensemble, err := zktest.Run(ctx, nil) // your ZooKeeper servers
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ensemble.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := &demo{expire: ensemble.Expire, stop: stop, aborted: make(chan struct{})}
	var pods sync.WaitGroup
	errs := make(chan error, 2)
	for _, name := range []string{"pod-1", "pod-2"} {
		pods.Go(func() {
			defer stop() // if one pod ends with an error, the other one ends, too
			errs <- d.pod(ctx, name, ensemble.Addrs(), locks)
		})
	}
	pods.Wait()
	return errors.Join(<-errs, <-errs)
}

// pod runs a scheduler with the job until ctx is done, or the pod can no longer be elected.
func (d *demo) pod(ctx context.Context, name string, servers []string, locks bool) (err error) {
	client, err := recipes.Connect(ctx, servers, &recipes.Options{Owner: name, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer client.Close()
	report := func(ctx context.Context, token fencing.Token) error {
		return d.report(ctx, name, token, client.SessionID())
	}
	if locks {
		l := &locker{client: client, parent: "/jobs"}
		defer l.Wait() // before the client is closed
		task := l.job("report", func(ctx context.Context, hold *lock.Hold) error { return report(ctx, hold.Token()) })
		return schedule(ctx, gocron.WithDistributedLocker(l), task)
	}
	candidate, err := election.New(client, "/election/jobs", nil)
	if err != nil {
		return err
	}
	e := &elector{election: candidate}
	task := e.job(func(ctx context.Context, term *election.Term) error { return report(ctx, term.Token()) })
	led := make(chan error, 1)
	campaign, resign := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop() // or the scheduler would run no job, and report nothing
		led <- e.Run(campaign)
	}()
	defer func() { resign(); err = errors.Join(err, <-led) }() // resigns after the scheduler has shut down
	return schedule(ctx, gocron.WithDistributedElector(e), task)
}

// schedule runs the task until ctx is done.
func schedule(ctx context.Context, distributed gocron.SchedulerOption, task func(context.Context) error) error {
	s, err := gocron.NewScheduler(distributed)
	if err != nil {
		return err
	}
	if _, err := s.NewJob(gocron.DurationJob(200*time.Millisecond), gocron.NewTask(task), gocron.WithName("report")); err != nil {
		return errors.Join(err, s.Shutdown())
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown() // cancels the jobs, and waits for them for 10 s, or gocron.WithStopTimeout
}

// A demo is the job, and the resource that it writes.
type demo struct {
	expire  func(ctx context.Context, session int64) error
	stop    func()
	aborted chan struct{} // closed when the run that lost its session stops

	mu    sync.Mutex
	gate  fencing.Gate  // guarded by mu
	lost  fencing.Token // of the run that lost its session, 0 before; guarded by mu
	again bool          // a run after that has written; guarded by mu
}

// report is the job. Its first run loses its session.
func (d *demo) report(ctx context.Context, pod string, token fencing.Token, session int64) error {
	lose, again, err := d.write(token)
	switch {
	case err != nil:
		return err // fencing.ErrStale, if a later leader or holder has written
	case again:
		<-d.aborted // only to print in this order
		fmt.Printf("%s runs report with token %v\n", pod, token)
		d.stop()
		return nil
	case !lose:
		return nil
	}
	fmt.Printf("%s runs report with token %v\n", pod, token)
	defer close(d.aborted)
	if err := d.expire(ctx, session); err != nil {
		return err
	}
	<-ctx.Done() // here the work goes on until it must stop
	fmt.Printf("%s aborts report: %v\n", pod, context.Cause(ctx))
	return context.Cause(ctx)
}

// write writes with the token. It reports whether the run is the first, and whether it is the first after a loss.
func (d *demo) write(token fencing.Token) (first, again bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.gate.Admit(token); err != nil {
		return false, false, err
	}
	switch {
	case d.lost == 0:
		d.lost, first = token, true
	case token > d.lost && !d.again:
		d.again, again = true, true // once: pods run the job until they are stopped
	}
	return first, again, nil
}
