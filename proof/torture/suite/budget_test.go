// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
)

// strict makes a missed budget fail the run. Without it benchmarks only report, because a busy machine is not a defect.
var strict = flag.Bool("strict", false, "exit with status 1 if a benchmark exceeds a budget")

// A budget is a measured value and the limit that it must not exceed. The largest value of all runs counts.
type budget struct {
	name            string
	unit            string // "s", "MB", or none for counts
	measured, limit float64
}

// budgets contains the budgets of this run, in the order of their first measurement.
var budgets budgetTable

type budgetTable struct {
	mu  sync.Mutex // guards all
	all []budget
}

// measured adds a value to the table.
func (t *budgetTable) measured(b budget) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(other budget) bool { return other.name == b.name })
	if i < 0 {
		t.all = append(t.all, b)
		return
	}
	t.all[i].measured = max(t.all[i].measured, b.measured)
}

// write prints a line for each budget, and reports whether all were met.
func (t *budgetTable) write(to io.Writer) (met bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 {
		return true, nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nbudget\tmeasured\tlimit\t")
	met = true
	for _, b := range t.all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.name, b.show(b.measured), b.show(b.limit), b.verdict())
		met = met && b.met()
	}
	return met, w.Flush()
}

func (b budget) met() bool { return b.measured <= b.limit }

func (b budget) verdict() string {
	if b.met() {
		return "PASS"
	}
	return "short by " + b.show(b.measured-b.limit)
}

func (b budget) show(value float64) string {
	if b.unit == "" {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f %s", value, b.unit)
}
