// SPDX-License-Identifier: Apache-2.0

//go:build unix && !stepclock

// Torture injects faults into a real ensemble and into the contenders for its locks and elections, and reports whether two
// clients ever held a lock at the same time: see package torture.
//
//	torture [-duration 10m] [-seed N] [-servers 3|5] [-faults KIND,…] [-contenders N] [-clients N] [-timeout T] [-out DIR]
//	        [-waiters N] [-holds N] [-replicas N] [-plan FILE] [-mutant PATCH | -contender COMMAND]
//	torture -judge DIR
//
// The summary goes to standard output, progress to standard error, and into DIR: result.json, summary.txt, plan.txt,
// history.jsonl, and the servers' logs in servers. Torture first removes the files of an earlier run from DIR. It does not
// accept a folder that contains anything else, nor one with the history of a broken run: that is evidence.
//
// The status is 0 if every promise was tested and is valid, 1 if something was broken, 2 if the run failed, if something that it
// created could not be removed, or if the flags are invalid, 3 if nothing was broken but a promise was never tested, and 130
// if it was interrupted.
//
// With -judge, torture runs nothing: it checks the history of the run in DIR again with the checker of this build. It rewrites
// result.json and summary.txt, and its status is as of a run with this result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/lockkeeper/lockkeeper/internal/flags"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

func main() {
	if spec := os.Getenv(worker.SpecVariable); spec != "" {
		contend(spec)
		return
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// say writes a message and ignores errors.
func say(to io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(to, format, args...) }

// Statuses.
const (
	valid       = 0
	broken      = 1
	notRun      = 2
	unknown     = 3
	unsound     = 4
	interrupted = 130
)

func run(args []string, out, problems io.Writer) int {
	j, err := parse(args, problems)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return valid
	case err == nil && j.judge:
		return judge(j.dir, out, problems)
	case err == nil:
		err = prepare(j.dir)
	}
	if err != nil {
		say(problems, "torture: %v\n", err)
		return notRun
	}
	return runTorture(&j.opts, j.dir, out, problems)
}

// runTorture runs a torture, in a folder that was prepared for it.
func runTorture(opts *torture.Options, dir string, out, problems io.Writer) int {
	tclog.SetDefault(tclog.NewNoopLogger()) // it logs ten lines for every engine
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(opts.Contender) == 0 {
		remove, err := ours(ctx, opts)
		defer remove()
		if err != nil {
			return failure(ctx, err, problems)
		}
	}
	if opts.Replicas > 0 {
		remove, err := service(ctx, opts)
		defer remove()
		if err != nil {
			return failure(ctx, err, problems)
		}
	}
	if opts.Plan == nil {
		opts.Plan = torture.GeneratePlan(opts)
	}
	err := write(dir, planFile, func(w io.Writer) error { return torture.WritePlan(w, opts.Plan) })
	if err != nil {
		return failure(ctx, err, problems)
	}
	progress("%d faults planned, in %s", len(opts.Plan), filepath.Join(dir, planFile))
	opts.Logs = filepath.Join(dir, logsFolder)
	result, left := torture.Run(ctx, opts)
	if result == nil {
		return failure(ctx, left, problems)
	}
	// An interruption comes too late now: the result is known.
	result.Again = again(opts, dir)
	err = errors.Join(
		writeHistory(dir, result),
		keep(dir, result, out))
	if err := errors.Join(left, err); err != nil {
		say(problems, "torture: %v\n", err)
	}
	status := conclude(result, dir, out)
	if (status == valid || status == unknown) && (left != nil || err != nil) {
		return notRun
	}
	return status
}

// failure reports why there is no result and, after an interruption, whether anything was left behind.
func failure(ctx context.Context, err error, problems io.Writer) int {
	switch {
	case ctx.Err() == nil:
		say(problems, "torture: %v\n", err)
		return notRun
	case errors.As(err, new(*torture.LeftError)):
		say(problems, "torture: interrupted; not everything is removed: %v\n", err)
		return notRun
	}
	say(problems, "torture: interrupted; everything is removed: %v\n", err)
	return interrupted
}

// conclude returns the status of a run, and prints what to do about it.
func conclude(result *verdict.Result, dir string, out io.Writer) int {
	switch result.Verdict {
	case verdict.Valid:
		return valid
	case verdict.Unknown:
		say(out, "\nNothing was broken, but some promises were never tested, and are unknown. A longer run tests more.\n")
		return unknown
	case verdict.Unsound:
		say(out, "\nNothing was found about the contenders, but the servers or the harness failed: see the failures above. Run it again:\n\n    %s\n", result.Again)
		return unsound
	}
	say(out, "\nThe history is in %s. To run the same faults again:\n\n    %s\n", filepath.Join(dir, historyFile), result.Again)
	return broken
}

// judge checks a finished run again, by the files that it has kept.
func judge(dir string, out, problems io.Writer) int {
	result, err := kept(dir)
	if err == nil {
		err = reorder(result, filepath.Join(dir, logsFolder))
	}
	if err == nil {
		verdict.Rejudge(result)
		err = errors.Join(writeHistory(dir, result), keep(dir, result, out))
	}
	if err != nil {
		say(problems, "torture: judging %s again: %v\n", dir, err)
		return notRun
	}
	return conclude(result, dir, out)
}

// reorder reads the servers' logs again, if they were kept.
func reorder(result *verdict.Result, logs string) error {
	if _, err := os.Stat(logs); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return torture.Reorder(result, logs)
}

// A job is the parsed command line.
type job struct {
	opts  torture.Options
	dir   string
	judge bool // judge the run in dir, and run nothing
}

// parse reads the flags.
func parse(args []string, problems io.Writer) (*job, error) {
	set := flag.NewFlagSet("torture", flag.ContinueOnError)
	var (
		j         job
		faults    = set.String("faults", "all", "kinds of faults, separated by commas")
		plan      = set.String("plan", "", "file with a plan to run, instead of one that is drawn")
		contender = set.String("contender", "", "command of another contender, split at blanks (default: this library)")
		judge     = set.String("judge", "", "folder of a run whose history is judged again; nothing is run, and no other flag is wanted")
		out       = set.String("out", "", "folder for what comes of it (default: torture-<seed> in the system's folder for temporary files)")
	)
	opts := &j.opts
	set.DurationVar(&opts.Duration, "duration", 10*time.Minute, "of the run, 10s to 24h")
	set.Uint64Var(&opts.Seed, "seed", uint64(time.Now().UnixNano()%1_000_000), "of the faults and of what contenders ask for")
	set.IntVar(&opts.Servers, "servers", 3, "3 or 5")
	set.IntVar(&opts.Contenders, "contenders", 4, "processes that contend, 1 to 16")
	set.IntVar(&opts.Clients, "clients", 3, "of each contender, 1 to 16")
	set.IntVar(&opts.Waiters, "waiters", 0, "of each contender, further ones that wait for each path, on one client; at most 1000")
	set.IntVar(&opts.Holds, "holds", 0, "of each contender, further locks that it holds on that client; at most 10000")
	set.DurationVar(&opts.Timeout, "timeout", 4*time.Second, "T of the sessions, 2s to 40s")
	set.IntVar(&opts.Replicas, "replicas", 0, "of the lock service, which every second contender then uses; at most 8")
	set.StringVar(&opts.Mutant, "mutant", "", "file of a patch that breaks the library in the contenders, for a run that must find it")
	about := "usage: torture [flags]\n\nFaults:"
	for _, name := range torture.Kinds() {
		about += fmt.Sprintf("\n  %-16s %s", name, torture.Describe(name))
	}
	if err := flags.Parse(set, args, problems, about); err != nil {
		return nil, err
	}
	set.Visit(func(f *flag.Flag) { j.judge = j.judge || f.Name == "judge" })
	switch {
	case j.judge && set.NFlag() > 1:
		return nil, errors.New("-judge: no other flag is allowed: the folder has all parameters")
	case j.judge && *judge == "":
		return nil, errors.New("-judge: name the folder of a run")
	case j.judge:
		var err error
		j.dir, err = filepath.Abs(*judge)
		return &j, err
	}
	if err := opts.CheckGiven(); err != nil {
		return nil, err
	}
	if *faults != "all" {
		for name := range strings.SplitSeq(*faults, ",") {
			opts.Faults = append(opts.Faults, strings.TrimSpace(name))
		}
	}
	opts.Log = progress
	opts.Contender = strings.Fields(*contender)
	if opts.Mutant != "" {
		if len(opts.Contender) > 0 {
			return nil, errors.New("-mutant: not allowed with -contender: a mutant breaks this library")
		}
		if _, err := os.Stat(opts.Mutant); err != nil {
			return nil, fmt.Errorf("-mutant: %w", err)
		}
	}
	opts.Steps = true // the build shows whether they can
	if len(opts.Contender) > 0 {
		opts.Steps = false
		if *faults == "all" {
			opts.Faults = slices.DeleteFunc(opts.Kinds(), func(name string) bool { return name == "step-clock" })
		}
	}
	if *plan != "" {
		var err error
		if opts.Plan, err = readPlan(*plan); err != nil {
			return nil, err
		}
		if opts.Plan == nil {
			opts.Plan = []torture.Fault{} // an empty plan is a plan: none is generated
		}
	}
	if err := opts.Check(); err != nil {
		return nil, err
	}
	if *out == "" {
		*out = filepath.Join(os.TempDir(), fmt.Sprintf("torture-%d", opts.Seed))
	}
	var err error
	j.dir, err = filepath.Abs(*out)
	return &j, err
}

// again returns the command that repeats the plan, in its own folder, so that this result is kept.
func again(opts *torture.Options, dir string) string {
	faults := "all"
	if len(opts.Faults) < len(opts.Kinds()) {
		faults = strings.Join(opts.Faults, ",")
	}
	target := "torture"
	if opts.Replicas > 0 {
		target = fmt.Sprintf("torture-service REPLICAS=%d", opts.Replicas)
	}
	more := fmt.Sprintf("-plan %s -out %s-again -contenders %d -clients %d -waiters %d -holds %d -timeout %v",
		filepath.Join(dir, planFile), dir, opts.Contenders, opts.Clients, opts.Waiters, opts.Holds, opts.Timeout)
	if opts.Mutant != "" {
		more += " -mutant " + opts.Mutant
	}
	if opts.Name == "" {
		more += fmt.Sprintf(" -contender %q", strings.Join(opts.Contender, " "))
	}
	return fmt.Sprintf("make %s DURATION=%v SEED=%d SERVERS=%d FAULTS=%s TORTURE='%s'", target, opts.Duration, opts.Seed, opts.Servers,
		faults, more)
}
