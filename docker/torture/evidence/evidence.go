// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package evidence makes docs/evidence.md from the documents that runs of package torture have left.
//
// Nothing on the page is written by hand that could be counted: a number that a document does not have is not there.
package evidence

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/lockkeeper/lockkeeper/docker/torture"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

//go:embed page.md.tmpl
var text string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"short": short, "says": torture.Says, "count": count, "hours": hours,
}).Parse(text))

// A Run is a document and the file that it is in.
type Run struct {
	torture.Result

	File string
}

// Read reads all documents of a folder, in the order of their names.
func Read(dir string) ([]Run, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	var runs []Run
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		r := Run{File: filepath.Base(file)}
		if err := json.Unmarshal(content, &r.Result); err != nil {
			return nil, fmt.Errorf("evidence: %s: %w", file, err)
		}
		if r.Schema != torture.Schema {
			return nil, fmt.Errorf("evidence: %s: a document of schema %q, want %q", file, r.Schema, torture.Schema)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Page is the page about runs.
func Page(runs []Run) (string, error) {
	p := &contents{}
	for _, r := range runs {
		if len(r.Without) == 0 && r.Token == ownToken {
			p.Ours = append(p.Ours, r)
		} else {
			p.Others = append(p.Others, r)
		}
	}
	if len(p.Ours) == 0 {
		return "", fmt.Errorf("evidence: none of %d documents is about this library", len(runs))
	}
	slices.SortStableFunc(p.Ours, func(a, b Run) int { return cmp.Compare(a.Servers, b.Servers) })
	var b strings.Builder
	if err := page.Execute(&b, p); err != nil {
		return "", fmt.Errorf("evidence: %w", err)
	}
	return b.String(), nil
}

// ownToken is what a document about this library says of its tokens.
const ownToken = "czxid"

// The contents are what the page's template asks for.
type contents struct {
	Ours, Others []Run
}

// Sum adds what f counts in each run.
func sum(runs []Run, f func(Run) int) (n int) {
	for _, r := range runs {
		n += f(r)
	}
	return n
}

func (c *contents) Grants() int  { return sum(c.Ours, func(r Run) int { return r.Numbers.Grants }) }
func (c *contents) Late() int    { return sum(c.Ours, func(r Run) int { return r.Numbers.Late }) }
func (c *contents) Left() int    { return sum(c.Ours, func(r Run) int { return r.Numbers.Left }) }
func (c *contents) Falling() int { return sum(c.Ours, func(r Run) int { return r.Numbers.Falling }) }
func (c *contents) Stale() int   { return sum(c.Ours, func(r Run) int { return r.Writes.Stale }) }
func (c *contents) Refused() int { return sum(c.Ours, func(r Run) int { return r.Writes.Refused }) }
func (c *contents) Let() int     { return sum(c.Ours, func(r Run) int { return r.Writes.Let }) }
func (c *contents) Taken() int   { return sum(c.Ours, func(r Run) int { return r.Writes.Accepted }) }
func (c *contents) Holders() int { return sum(c.Ours, func(r Run) int { return r.Writes.Holders }) }
func (c *contents) Asleep() int  { return sum(c.Ours, func(r Run) int { return r.Numbers.Unscheduled }) }
func (c *contents) ByHand() int  { return sum(c.Ours, func(r Run) int { return r.Numbers.ByHand }) }
func (c *contents) Faults() int  { return sum(c.Ours, Run.Injected) }
func (c *contents) Findings() int {
	return sum(c.Ours, func(r Run) int { return len(r.Findings) + len(r.Amiss) })
}

// Lasted is how long all runs of this library took together.
func (c *contents) Lasted() (d history.Instant) {
	for _, r := range c.Ours {
		d += r.Duration
	}
	return d
}

// RunName is a run of this library, for people.
func (c *contents) RunName(r Run) string {
	return fmt.Sprintf("%s on %d servers", hours(r.Duration), r.Servers)
}

// Kinds are the faults that were injected into this library, or could not be.
func (c *contents) Kinds() []string {
	all := map[string]bool{}
	for _, r := range c.Ours {
		for kind := range r.Faults {
			all[kind] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Injected is how many faults a run had.
func (r Run) Injected() (n int) {
	for _, f := range r.Faults {
		n += f.Injected
	}
	return n
}

// KindsOf are the kinds of faults that a run had: their names if they are few, else how many.
func (r Run) KindsOf() string {
	var names []string
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		if r.Faults[kind].Injected > 0 {
			names = append(names, kind)
		}
	}
	if len(names) > 3 {
		return fmt.Sprint(len(names))
	}
	return strings.Join(names, ", ")
}

// Broken are the rules that a run broke, each once.
func (r Run) Broken() string {
	var rules []string
	for _, f := range r.Findings {
		if !slices.Contains(rules, string(f.Rule)) {
			rules = append(rules, string(f.Rule))
		}
	}
	return strings.Join(rules, ", ")
}

// Unavailable is the longest time in which somebody asked and nobody held, of all paths.
func (r Run) Unavailable() (longest history.Instant) {
	for _, d := range r.Numbers.Unavailable {
		longest = max(longest, d)
	}
	return longest
}

// InT is d as a multiple of the session timeout.
func (r Run) InT(d history.Instant) string {
	if r.Timeout == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f T", float64(d)/float64(r.Timeout))
}

// Missing are the faults that do not exist for the library, with the reason, by name.
func (r Run) Missing() []string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(r.Without)) {
		missing = append(missing, fmt.Sprintf("%s: %s", name, r.Without[name]))
	}
	return missing
}

// HasTokens says whether the fenced registers were asked.
func (r Run) HasTokens() bool { return r.Token != "none" }

func short(i history.Instant) string { return time.Duration(i).Round(time.Millisecond).String() }

// hours is a length in hours and minutes.
func hours(i history.Instant) string {
	d := time.Duration(i).Round(time.Minute)
	if d < time.Hour {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
}

// count separates thousands.
func count(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}
