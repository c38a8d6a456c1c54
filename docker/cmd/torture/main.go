// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Torture breaks a real ensemble and those who contend on it for locks and elections, and says whether ever two held at
// once: see package torture.
//
//	torture [-duration 10m] [-seed N] [-servers 3|5] [-faults KIND,…] [-contenders N] [-clients N] [-timeout T] [-out DIR]
//	        [-plan FILE] [-contender COMMAND]
//
// The summary goes to standard output, progress to standard error, and into DIR: result.json, summary.txt, plan.txt and
// history.jsonl. The status is 0 if everything held up, 1 if something was broken, 2 if the run could not be made or the
// flags make no sense, and 130 if it was interrupted.
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

	"github.com/lockkeeper/lockkeeper/docker/torture"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

func main() {
	if part := os.Getenv(torture.PartVariable); part != "" {
		if err := torture.Play(part, os.Stdin, os.Stdout); err != nil {
			progress("%v", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "torture: "+format+"\n", args...) }

// say writes what nothing depends on.
func say(to io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(to, format, args...) }

// Statuses.
const (
	heldUp      = 0
	broken      = 1
	notRun      = 2
	interrupted = 130
)

func run(args []string, out, problems io.Writer) int {
	opts, dir, err := parse(args, problems)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return heldUp
	case errors.Is(err, errFlags): // said already
		return notRun
	case err != nil:
		say(problems, "torture: %v\n", err)
		return notRun
	}
	tclog.SetDefault(tclog.NewNoopLogger()) // it greets every engine with ten lines
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		progress("%v", err)
		return notRun
	}
	if len(opts.Contender) == 0 {
		remove, err := ours(ctx, opts)
		defer remove()
		if err != nil {
			progress("%v", err)
			return notRun
		}
	}
	if opts.Plan == nil {
		opts.Plan = torture.Draw(opts)
	}
	err = write(dir, "plan.txt", func(w io.Writer) error { return torture.WritePlan(w, opts.Plan) })
	if err != nil {
		progress("%v", err)
		return notRun
	}
	progress("%d faults planned, in %s", len(opts.Plan), filepath.Join(dir, "plan.txt"))
	opts.Logs = filepath.Join(dir, "servers")
	if err := os.RemoveAll(opts.Logs); err != nil { // of an earlier run
		progress("%v", err)
		return notRun
	}
	result, err := torture.Run(ctx, opts)
	if ctx.Err() != nil {
		progress("interrupted; everything is removed")
		return interrupted
	}
	if err != nil {
		progress("%v", err)
		if result == nil {
			return notRun
		}
	}
	result.Again = again(opts, dir)
	err = errors.Join(
		write(dir, "history.jsonl", func(w io.Writer) error { return history.Write(w, result.History) }),
		write(dir, "result.json", result.WriteJSON),
		write(dir, "summary.txt", result.WriteSummary),
		result.WriteSummary(out))
	if err != nil {
		progress("%v", err)
		return notRun
	}
	if result.Verdict != "held up" {
		say(out, "\nThe history is in %s. To run the same faults again:\n\n    %s\n", filepath.Join(dir, "history.jsonl"), result.Again)
		return broken
	}
	return heldUp
}

// ours has the contenders be those of this library: this program, or one that is built so that its clock can be stepped.
// remove is to be called when they have ended.
func ours(ctx context.Context, opts *torture.Options) (remove func(), err error) {
	remove = func() {}
	opts.Name = "lockkeeper"
	if slices.Contains(opts.Faults, "step-clock") {
		dir, err := os.MkdirTemp("", "torture-contender-")
		if err != nil {
			return remove, err
		}
		remove = func() { _ = os.RemoveAll(dir) } // it is in the folder for what may stay
		progress("building a contender whose clock can be stepped")
		binary, err := torture.BuildStepping(ctx, "github.com/lockkeeper/lockkeeper/docker/cmd/torture", dir)
		opts.Contender = []string{binary}
		return remove, err
	}
	self, err := os.Executable()
	opts.Contender = []string{self}
	return remove, err
}

// errFlags says that package flag has refused a flag, and has said so.
var errFlags = errors.New("flags")

// parse reads the flags.
func parse(args []string, problems io.Writer) (*torture.Options, string, error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(problems)
	var (
		opts      torture.Options
		faults    = flags.String("faults", "all", "kinds of faults, separated by commas")
		plan      = flags.String("plan", "", "file with a plan to run, instead of one that is drawn")
		contender = flags.String("contender", "", "command of another contender, split at blanks (default: this library)")
		out       = flags.String("out", "", "folder for what comes of it (default: torture-<seed> in the system's folder for temporary files)")
	)
	flags.DurationVar(&opts.Duration, "duration", 10*time.Minute, "of the run, 10s to 24h")
	flags.Uint64Var(&opts.Seed, "seed", uint64(time.Now().UnixNano()%1_000_000), "of the faults and of what contenders ask for")
	flags.IntVar(&opts.Servers, "servers", 3, "3 or 5")
	flags.IntVar(&opts.Contenders, "contenders", 4, "processes that contend, 1 to 16")
	flags.IntVar(&opts.Clients, "clients", 3, "of each contender, 1 to 16")
	flags.DurationVar(&opts.Timeout, "timeout", 4*time.Second, "T of the sessions, 2s to 40s")
	flags.Usage = func() {
		say(problems, "usage: torture [flags]\n")
		flags.PrintDefaults()
		say(problems, "Faults:\n")
		for _, name := range torture.Kinds() {
			say(problems, "  %-16s %s\n", name, torture.Says(name))
		}
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, "", err
		}
		return nil, "", fmt.Errorf("%w: %w", errFlags, err)
	}
	if flags.NArg() > 0 {
		return nil, "", fmt.Errorf("%q: no arguments are wanted besides flags", flags.Args())
	}
	if err := opts.CheckGiven(); err != nil {
		return nil, "", err
	}
	if *faults != "all" {
		for name := range strings.SplitSeq(*faults, ",") {
			opts.Faults = append(opts.Faults, strings.TrimSpace(name))
		}
	}
	opts.Log = progress
	opts.Contender = strings.Fields(*contender)
	opts.Steps = true // whether they can is seen when they are built
	if len(opts.Contender) > 0 {
		opts.Steps = false
		if *faults == "all" {
			opts.Faults = slices.DeleteFunc(torture.Kinds(), func(name string) bool { return name == "step-clock" })
		}
	}
	if err := opts.Check(); err != nil {
		return nil, "", err
	}
	if *plan != "" {
		file, err := os.Open(*plan)
		if err != nil {
			return nil, "", err
		}
		opts.Plan, err = torture.ReadPlan(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, "", fmt.Errorf("%s: %w", *plan, err)
		}
	}
	if *out == "" {
		*out = filepath.Join(os.TempDir(), fmt.Sprintf("torture-%d", opts.Seed))
	}
	dir, err := filepath.Abs(*out)
	return &opts, dir, err
}

// again is the command that runs the same plan.
func again(opts *torture.Options, dir string) string {
	faults := "all"
	if len(opts.Faults) < len(torture.Kinds()) {
		faults = strings.Join(opts.Faults, ",")
	}
	more := fmt.Sprintf("-plan %s -contenders %d -clients %d -timeout %v", filepath.Join(dir, "plan.txt"), opts.Contenders,
		opts.Clients, opts.Timeout)
	if opts.Name == "" {
		more += fmt.Sprintf(" -contender %q", strings.Join(opts.Contender, " "))
	}
	return fmt.Sprintf("make torture DURATION=%v SEED=%d SERVERS=%d FAULTS=%s TORTURE='%s'", opts.Duration, opts.Seed, opts.Servers,
		faults, more)
}

func write(dir, name string, f func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}
