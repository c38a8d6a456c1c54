// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Rival runs the torture on locks of other projects, one after the other, as torture does on this library: see package rivals.
//
//	rival [-rivals NAME,…] [-duration 10m] [-seed N] [-faults KIND,…] [-contenders N] [-clients N] [-timeout T] [-out DIR]
//
// The summaries go to standard output, progress to standard error, and into DIR/NAME: result.json, summary.txt, plan.txt and
// history.jsonl. Rival first removes the files of an earlier run from DIR/NAME, and rejects a folder that is not of a run. It
// names and skips a rival whose servers are not installed. The status is 0 if all others were run, whatever the verdicts; 2 if
// a run failed, if none was run, if something that it created could not be removed, or if the flags are invalid; and 130 if it
// was interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/flags"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/rivals"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

func main() {
	if spec := os.Getenv(worker.SpecVariable); spec != "" {
		if err := contend(os.Args[1:], spec); err != nil {
			progress("%v", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// contend runs a contender, whose only argument names the rival.
func contend(args []string, spec string) error {
	if len(args) != 1 || rivals.All()[args[0]] == nil {
		return fmt.Errorf("no rival in %q", args)
	}
	return worker.RunWith(rivals.All()[args[0]].Library, spec, os.Stdin, os.Stdout)
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "rival: "+format+"\n", args...) }

// Statuses.
const (
	ran         = 0
	notRun      = 2
	interrupted = 130
)

// A job is the parsed command line.
type job struct {
	names  []string
	opts   torture.Options
	faults []string // nil: all
	dir    string
}

func run(args []string, out, problems io.Writer) int {
	j, err := parse(args, problems)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ran
	case err != nil:
		_, _ = fmt.Fprintf(problems, "rival: %v\n", err) // a failure to print an error cannot be reported
		return notRun
	}
	for _, name := range j.names { // before the first run, which takes long
		if err := removable(filepath.Join(j.dir, name)); err != nil {
			_, _ = fmt.Fprintf(problems, "rival: %v\n", err) // a failure to print an error cannot be reported
			return notRun
		}
	}
	tclog.SetDefault(tclog.NewNoopLogger()) // it logs ten lines for every engine
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	command, remove, err := j.contender(ctx)
	defer remove()
	if err != nil && ctx.Err() == nil {
		progress("%v", err)
		return notRun
	}
	return each(ctx, j.names, func(name string) error { return j.rival(ctx, name, command, out) })
}

// each runs the rivals one after the other, until ctx ends or a run fails. It skips those whose servers are not installed.
func each(ctx context.Context, names []string, run func(name string) error) (status int) {
	status = notRun // until one was run
	for _, name := range names {
		var err error
		if ctx.Err() == nil {
			progress("%s", name)
			err = run(name)
		}
		switch {
		case ctx.Err() != nil && errors.As(err, new(*torture.LeftError)):
			progress("interrupted; not everything is removed: %v", err)
			return notRun
		case ctx.Err() != nil:
			progress("interrupted; everything is removed")
			return interrupted
		case errors.Is(err, stores.ErrNotInstalled) || errors.Is(err, docker.ErrNoBackend):
			progress("%s is skipped: %v", name, err)
		case err != nil:
			progress("%s: %v", name, err)
			return notRun
		default:
			status = ran
		}
	}
	return status
}

// contender returns the command of contenders, without the rival's name: this program, or a build of it whose clock can be
// stepped. The caller must call remove when all have ended.
func (j *job) contender(ctx context.Context) (command string, remove func(), err error) {
	remove = func() {}
	if j.faults != nil && !slices.Contains(j.faults, "step-clock") {
		command, err = os.Executable()
		return command, remove, err
	}
	dir, err := os.MkdirTemp("", "rival-contender-")
	if err != nil {
		return "", remove, err
	}
	progress("building a contender whose clock can be stepped")
	command, err = torture.BuildStepping(ctx, "github.com/lockkeeper/lockkeeper/proof/torture/cmd/rival", dir)
	return command, func() { _ = os.RemoveAll(dir) }, err // leftovers stay in the temporary folder
}

// rival runs the torture on one rival.
func (j *job) rival(ctx context.Context, name, command string, out io.Writer) error {
	r := rivals.All()[name]
	opts := j.opts
	opts.Rival, opts.Contender, opts.Log, opts.Steps = &r.Rival, []string{command, name}, progress, true
	opts.Faults = slices.Clone(j.faults)
	opts.Servers = r.Count
	if err := opts.Check(); err != nil {
		return err
	}
	opts.Plan = torture.GeneratePlan(&opts)
	dir := filepath.Join(j.dir, name)
	if err := removable(dir); err != nil { // it may have been created since the first check
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	opts.Logs = filepath.Join(dir, "servers")
	err := write(dir, "plan.txt", func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "%s %s, seed %d\n", planHead, name, opts.Seed); err != nil {
			return err
		}
		return torture.WritePlan(w, opts.Plan)
	})
	if err != nil {
		return err
	}
	result, err := torture.Run(ctx, &opts)
	if result == nil {
		return err
	}
	result.Again = j.again(name)
	return errors.Join(err,
		write(dir, "history.jsonl", func(w io.Writer) error { return history.Write(w, result.History) }),
		write(dir, "result.json", result.WriteJSON),
		write(dir, "summary.txt", result.WriteSummary),
		result.WriteSummary(out))
}

// planHead begins the plans that this program writes. It recognises its folders by that.
const planHead = "# A plan of rival, for"

// removable returns the reason why a folder must not be removed: it may belong to another program, as /var/lib/etcd does
// with -out /var/lib.
func removable(dir string) error {
	there, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(there) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for an earlier run: %w", err)
	}
	plan, err := os.ReadFile(filepath.Join(dir, "plan.txt"))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !strings.HasPrefix(string(plan), planHead):
		return fmt.Errorf("folder %s: it has files that are not of a run of this program, and would be removed", dir)
	case err != nil:
		return fmt.Errorf("look for an earlier run: %w", err)
	}
	return nil
}

func parse(args []string, problems io.Writer) (*job, error) {
	set := flag.NewFlagSet("rival", flag.ContinueOnError)
	var (
		j      job
		names  = set.String("rivals", "all", "rivals, separated by commas: "+strings.Join(rivals.Names(), ", "))
		faults = set.String("faults", "all", "kinds of faults, separated by commas; those that do not exist for a rival are skipped")
		dir    = set.String("out", "", "folder for the results (default: rivals-<seed> in the system's folder for temporary files)")
	)
	set.DurationVar(&j.opts.Duration, "duration", 10*time.Minute, "of each run, 10s to 24h")
	set.Uint64Var(&j.opts.Seed, "seed", uint64(time.Now().UnixNano()%1_000_000), "of the faults and of the contenders' operations")
	set.IntVar(&j.opts.Contenders, "contenders", 4, "processes that contend, 1 to 16")
	set.IntVar(&j.opts.Clients, "clients", 3, "of each contender, 1 to 16")
	set.DurationVar(&j.opts.Timeout, "timeout", 4*time.Second, "T of sessions, leases and expiries: whole seconds, 2s to 40s")
	if err := flags.Parse(set, args, problems, "usage: rival [flags]"); err != nil {
		return nil, err
	}
	if err := j.opts.CheckGiven(); err != nil {
		return nil, err
	}
	j.names = rivals.Names()
	if *names != "all" {
		j.names = words(*names)
		for i, name := range j.names {
			switch {
			case rivals.All()[name] == nil:
				return nil, fmt.Errorf("rival %q: allowed are %s", name, strings.Join(rivals.Names(), ", "))
			case slices.Contains(j.names[:i], name):
				return nil, fmt.Errorf("rival %q: named twice, and the second run would replace the first", name)
			}
		}
	}
	if *faults != "all" {
		j.faults = words(*faults)
	}
	if j.opts.Timeout%time.Second != 0 {
		return nil, fmt.Errorf("timeout %v: allowed are whole seconds, as etcd's leases have them", j.opts.Timeout)
	}
	j.opts.Servers = 3
	// Check validates the other options, before anything is started.
	tried := j.opts
	tried.Faults, tried.Steps = slices.Clone(j.faults), true
	if err := tried.Check(); err != nil {
		return nil, err
	}
	var err error
	if *dir == "" {
		*dir = filepath.Join(os.TempDir(), fmt.Sprintf("rivals-%d", j.opts.Seed))
	}
	j.dir, err = filepath.Abs(*dir)
	return &j, err
}

func words(list string) []string {
	var all []string
	for word := range strings.SplitSeq(list, ",") {
		all = append(all, strings.TrimSpace(word))
	}
	return all
}

// again returns the command that repeats the plan, which depends on the seed, in its own folder, so that this result is kept.
func (j *job) again(name string) string {
	faults := "all"
	if j.faults != nil {
		faults = strings.Join(j.faults, ",")
	}
	return fmt.Sprintf("make torture-rivals RIVALS=%s DURATION=%v SEED=%d FAULTS=%s TORTURE='-out %s-again -contenders %d -clients %d -timeout %v'",
		name, j.opts.Duration, j.opts.Seed, faults, j.dir, j.opts.Contenders, j.opts.Clients, j.opts.Timeout)
}

func write(dir, name string, f func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}
