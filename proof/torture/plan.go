// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WritePlan writes faults, one to a line.
func WritePlan(w io.Writer, plan []Fault) error {
	for _, f := range plan {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
	}
	return nil
}

// ReadPlan reads what WritePlan writes. It skips empty lines and lines that begin with #.
func ReadPlan(r io.Reader) ([]Fault, error) {
	plan := []Fault{} // not nil: an empty plan is a plan, and no request to generate one
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		f, err := readFault(text)
		if err != nil {
			return nil, fmt.Errorf("plan: line %d: %w", n, err)
		}
		plan = append(plan, f)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return plan, nil
}

func readFault(text string) (f Fault, err error) {
	words := strings.Fields(text)
	if len(words) < 5 || words[0] != "at" || words[2] != "for" {
		return f, fmt.Errorf("%q: want at TIME for TIME KIND [ARG…]", text)
	}
	if f.At, err = time.ParseDuration(words[1]); err != nil {
		return f, err
	}
	if f.For, err = time.ParseDuration(words[3]); err != nil {
		return f, err
	}
	f.Kind, f.Args = words[4], words[5:]
	if _, known := kinds[f.Kind]; !known {
		return f, fmt.Errorf("unknown fault %q: allowed are %s", f.Kind, strings.Join(Kinds(), ", "))
	}
	return f, nil
}

// checkPlan returns an error for a fault that the run cannot inject, with what is allowed there. A plan that passes has all that
// inject needs.
func checkPlan(opts *Options, plan []Fault) error {
	for _, f := range plan {
		if err := f.check(opts); err != nil {
			return fmt.Errorf("plan: %q: %w", f, err)
		}
	}
	return nil
}

func (f Fault) check(opts *Options) error {
	kind := kinds[f.Kind]
	if kind.inject == nil && kind.description != "" {
		return fmt.Errorf("fault %q: it is present from the start and belongs in no plan", f.Kind)
	}
	if kind.inject == nil || !slices.Contains(opts.Faults, f.Kind) {
		allowed := slices.DeleteFunc(slices.Clone(opts.Faults), func(name string) bool { return kinds[name].inject == nil })
		return fmt.Errorf("fault %q: not enabled in this run: allowed are %s", f.Kind, strings.Join(allowed, ", "))
	}
	if f.At < 0 || f.For < 0 || f.At > opts.Duration || f.For > opts.Duration-f.At {
		return fmt.Errorf("at %v for %v: it must begin and end within the run of %v", f.At, f.For, opts.Duration)
	}
	if len(f.Args) != len(kind.parameters) {
		var names []string
		for _, w := range kind.parameters {
			names = append(names, w.name)
		}
		return fmt.Errorf("%d arguments, want %d: %s", len(f.Args), len(names), strings.Join(names, " "))
	}
	for i, w := range kind.parameters {
		if err := w.check(opts, f.Args[i]); err != nil {
			return fmt.Errorf("%s %q: %w", w.name, f.Args[i], err)
		}
	}
	return nil
}
