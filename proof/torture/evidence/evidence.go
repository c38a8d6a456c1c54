// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package evidence generates docs/evidence.md from the documents of runs of package torture.
//
// Every number on the page comes from a document; none is entered manually.
package evidence

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

//go:embed page.md.tmpl
var text string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"short": short, "says": torture.Describe, "meaning": check.Rule.Meaning, "count": count, "hours": hours, "promises": promises,
}).Parse(text))

// Runs are documents of runs, in the order of the page.
type Runs struct {
	Ours     []Run // of this library, long: the evidence
	Service  []Run // of the lock service and this library
	Compared []Run // of this library and of others, with all faults
	Aimed    []Run // likewise, with few kinds of faults
	Campaign *Campaign

	codes []Run // of the campaign
}

// Read reads the documents of a folder: long runs of this library in the folder itself, runs of the lock service in
// "service", the others in "compared" and "aimed".
func Read(dir string) (*Runs, error) {
	r := &Runs{}
	for _, part := range []struct {
		folder string
		runs   *[]Run
	}{{"", &r.Ours}, {"service", &r.Service}, {"compared", &r.Compared}, {"aimed", &r.Aimed}} {
		var err error
		if *part.runs, err = read(dir, part.folder); err != nil {
			return nil, err
		}
	}
	var err error
	if r.Campaign, err = ReadCampaign(dir); err != nil {
		return nil, err
	}
	r.codes = r.Campaign.codes()
	if len(r.Ours) == 0 {
		return nil, fmt.Errorf("evidence: %s: no document of a long run of this library", dir)
	}
	for _, run := range r.Ours {
		if !run.Own() {
			return nil, fmt.Errorf("evidence: %s: %s is about %s: move it to compared or aimed, this folder is for long runs of this library", dir, run.File, run.Contender)
		}
	}
	for _, run := range r.Service {
		if run.Replicas == 0 {
			return nil, fmt.Errorf("evidence: %s: it had no replica of the lock service", run.File)
		}
	}
	slices.SortStableFunc(r.Ours, func(a, b Run) int { return cmp.Compare(a.Servers, b.Servers) })
	slices.SortStableFunc(r.Service, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Servers, b.Servers), cmp.Compare(a.Replicas, b.Replicas))
	})
	return r, nil
}

// read reads the documents of one folder, this library's first.
func read(dir, folder string) ([]Run, error) {
	files, err := filepath.Glob(filepath.Join(dir, folder, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	var ours, others []Run
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		r := Run{File: path.Join(folder, filepath.Base(file))}
		if err := json.Unmarshal(content, &r.Result); err != nil {
			return nil, fmt.Errorf("evidence: %s: %w", file, err)
		}
		switch {
		case r.Schema != verdict.Schema:
			return nil, fmt.Errorf("evidence: %s: a document of schema %q, want %q", file, r.Schema, verdict.Schema)
		case r.Mutant != "":
			return nil, fmt.Errorf("evidence: %s: it is about a library that was deliberately broken: %s", file, r.Mutant)
		case r.Own():
			ours = append(ours, r)
		default:
			others = append(others, r)
		}
	}
	return append(ours, others...), nil
}

// Page returns the page about runs.
func Page(runs *Runs) (string, error) {
	if len(runs.Ours) == 0 {
		return "", errors.New("evidence: no long run of this library")
	}
	var b strings.Builder
	if err := page.Execute(&b, runs); err != nil {
		return "", fmt.Errorf("evidence: %w", err)
	}
	return b.String(), nil
}

// sum returns the sum of f over the long runs of this library.
func (r *Runs) sum(f func(Run) int) (n int) {
	for _, run := range r.Ours {
		n += f(run)
	}
	return n
}

// The following methods sum over the long runs of this library.

func (r *Runs) Overlaps() int     { return r.sum(Run.Overlaps) }
func (r *Runs) Grants() int       { return r.sum(func(r Run) int { return r.Numbers.Grants }) }
func (r *Runs) StaleBeliefs() int { return r.sum(func(r Run) int { return r.Numbers.StaleBeliefs }) }
func (r *Runs) Nodes() int        { return r.sum(func(r Run) int { return r.Numbers.NodesLeft }) }
func (r *Runs) Falling() int      { return r.sum(func(r Run) int { return r.Numbers.FallingTokens }) }
func (r *Runs) Stale() int        { return r.sum(func(r Run) int { return r.Writes.Stale }) }
func (r *Runs) Rejected() int     { return r.sum(func(r Run) int { return r.Writes.Rejected }) }
func (r *Runs) AcceptedByFenced() int {
	return r.sum(func(r Run) int { return r.Writes.AcceptedByFenced })
}

func (r *Runs) AcceptedByBare() int { return r.sum(func(r Run) int { return r.Writes.AcceptedByBare }) }
func (r *Runs) Writers() int        { return r.sum(func(r Run) int { return r.Writes.Writers }) }
func (r *Runs) Stopped() int        { return r.sum(Run.Stopped) }
func (r *Runs) Deleted() int        { return r.sum(Run.Deleted) }
func (r *Runs) Unscheduled() int    { return r.sum(func(r Run) int { return r.Numbers.Unscheduled }) }

func (r *Runs) ByOperator() int { return r.sum(func(r Run) int { return r.Numbers.ByOperator }) }
func (r *Runs) Faults() int     { return r.sum(Run.Injected) }
func (r *Runs) Findings() int {
	return r.sum(func(r Run) int { return len(r.Findings) + len(r.Problems) + len(r.Failures) })
}

// Lasted returns their total duration.
func (r *Runs) Lasted() (d history.Instant) {
	for _, run := range r.Ours {
		d += run.Duration
	}
	return d
}

// ShortestPause returns the shortest pause that excuses a holder, 0 if there is none.
func (r *Runs) ShortestPause() (shortest history.Instant) {
	for _, run := range r.Ours {
		if p := run.Numbers.ShortestPause; p > 0 && (shortest == 0 || p < shortest) {
			shortest = p
		}
	}
	return shortest
}

// InjectedOf returns how often a kind of fault was injected, over the long runs of this library.
func (r *Runs) InjectedOf(kind string) int {
	return r.sum(func(r Run) int { return r.Faults[kind].Injected })
}

// Kinds returns the kinds of faults that were injected, or could not be.
func (r *Runs) Kinds() []string {
	all := map[string]bool{}
	for _, run := range r.Ours {
		for kind := range run.Faults {
			all[kind] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// promises returns the rules that were checked in runs, in the order of their documents, with what counts as a test of each.
func promises(runs []Run) (checked []verdict.Promise) {
	for _, run := range runs {
		next := 0
		for _, p := range run.Promises {
			i := slices.IndexFunc(checked, func(other verdict.Promise) bool { return other.Rule == p.Rule })
			if i < 0 {
				i, checked = next, slices.Insert(checked, next, p)
			}
			next = i + 1
		}
	}
	return checked
}

// Waived returns the rules that were not checked in long runs of this library, with the runs and the reasons.
func (r *Runs) Waived() []string {
	type waived struct{ rules, in []string }
	var whys []string
	all := map[string]*waived{}
	for _, run := range r.Ours {
		for _, u := range run.Unchecked {
			w := all[u.Why]
			if w == nil {
				w = &waived{}
				all[u.Why], whys = w, append(whys, u.Why)
			}
			for list, name := range map[*[]string]string{&w.rules: string(u.Rule), &w.in: run.Title()} {
				if !slices.Contains(*list, name) {
					*list = append(*list, name)
				}
			}
		}
	}
	for i, why := range whys {
		in := " in " + strings.Join(all[why].in, ", ")
		if len(all[why].in) == len(r.Ours) {
			in = ""
		}
		whys[i] = fmt.Sprintf("%s: %s: %s", in, strings.Join(all[why].rules, ", "), why)
	}
	return whys
}

// All returns the runs of both comparisons.
func (r *Runs) All() []Run { return slices.Concat(r.Compared, r.Aimed) }

// Others returns one run of each rival.
func (r *Runs) Others() (others []Run) {
	for _, run := range r.All() {
		if !run.Own() && !slices.ContainsFunc(others, func(other Run) bool { return other.Contender == run.Contender }) {
			others = append(others, run)
		}
	}
	return others
}
