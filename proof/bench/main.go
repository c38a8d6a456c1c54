// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Bench measures what locks cost, ours and those of other projects, on real servers, and makes docs/performance.md.
//
//	bench [-short] [-run REGEXP] [-strict] [-profile] [-root DIR] [-out DIR]
//	bench -page [-root DIR]
//
// A case is a file that stands in the table of cases. Each runs three rounds; in a round, all libraries run in turns, and ratios
// are those of one round. The document of a case goes to OUT/CASE.json when it has ended: a run that was interrupted continues
// with -run. A case that fails is named at the end, and the others run. Libraries and servers that this machine does not have
// are named and left out, and are an error where CI is set.
//
// At the end, each budget of the cases that ran is printed with PASS or with what is missing. With -strict the status is then 1.
// With -profile, a CPU profile of each case is written beside its document, and for a budget that is not met, the functions that
// took the most time are printed.
//
// With -page, bench measures nothing: it makes docs/performance.md from the documents in docs/performance.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"text/tabwriter"

	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/flags"
	"github.com/lockkeeper/lockkeeper/recipes/guard"
)

func main() {
	guard.Main(nil)
	child.Main()
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("a budget is not met")

func run(args []string) error {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	short := set.Bool("short", false, "one round, less of everything")
	match := set.String("run", "", "run the cases whose names match the `regexp`")
	strict := set.Bool("strict", false, "fail if a budget is not met")
	profile := set.Bool("profile", false, "write CPU profiles")
	root := set.String("root", "..", "the `folder` of the repository")
	out := set.String("out", "", "the `folder` of the documents; the default is bin/bench in the repository")
	page := set.Bool("page", false, "make docs/performance.md from the documents in docs/performance")
	if err := flags.Parse(set, args, os.Stdout, "Bench measures what locks cost."); err != nil {
		return err
	}
	if *page {
		return writePage(filepath.Join(*root, "docs"))
	}
	selected, err := regexp.Compile(*match)
	if err != nil {
		return err
	}
	run, err := matching(selected.MatchString)
	if err != nil {
		return err
	}
	if *out == "" {
		*out = filepath.Join(*root, "bin", "bench")
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	tclog.SetDefault(tclog.NewNoopLogger()) // it logs ten lines for every engine
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := newBench(ctx, *out, os.Stderr)
	b.short, b.profile, b.root = *short, *profile, *root
	succeeded, failed := b.run(run)
	failed = errors.Join(failed, b.close())
	if len(succeeded) == 0 {
		return failed
	}
	missed, err := b.judge(succeeded)
	if missed && *strict {
		err = errors.Join(err, errMissed)
	}
	return errors.Join(err, failed)
}

// judge prints the results of cases that have run, and their budgets, and reports whether one is not met.
func (b *bench) judge(run []*benchCase) (missed bool, err error) {
	all, err := readDocuments(b.out)
	if err != nil {
		return false, err
	}
	var ran []string
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	for _, c := range run {
		d := all[c.name]
		ran = append(ran, c.name)
		say("\n%s: %s\n\nlibrary\tservers\tmetric\tmedian\trounds\n", c.name, c.about)
		for _, v := range d.Values {
			say("%s\t%d\t%s\t%s\t%v\n", v.Library, v.Servers, v.Metric, show(median(append([]float64{}, v.Rounds...))), v.Rounds)
		}
	}
	say("\nbudget\tservers\tmeasured\tlimit\t\n")
	short := map[string]bool{}
	for _, o := range outcomes(all, ran) {
		say("%s\t%d\t%s\t%s\t%s\n", o.what, o.servers, o.Measured(), o.Limit(), o.Verdict())
		missed = missed || !o.met
		if !o.met && o.found {
			short[o.of] = true
		}
	}
	err = w.Flush()
	for _, name := range ran {
		switch {
		case short[name] && b.profile:
			fmt.Printf("\nmost of the time of %s, of which a budget is not met (%s):\n%s", name, b.profileOf(name), b.top(name))
		case short[name]:
			fmt.Printf("\n%s: make bench RUN='^%s$' PROFILE=1 explains what a budget lacks\n", name, name)
		}
	}
	return missed, err
}
