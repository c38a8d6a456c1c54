// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/check"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture"
)

// A Run is a document and the file that it is in.
type Run struct {
	torture.Result

	File string // below the folder of documents
}

// Name is what the library is called.
func (r Run) Name() string {
	if r.Own() {
		return "Lockkeeper"
	}
	return r.Contender
}

// Title tells a run of this library from the others, for people.
func (r Run) Title() string { return fmt.Sprintf("%s on %d servers", hours(r.Duration), r.Servers) }

// Injected is how many faults it had.
func (r Run) Injected() (n int) {
	for _, f := range r.Faults {
		n += f.Injected
	}
	return n
}

// Missed is how many were drawn and could not be injected.
func (r Run) Missed() (n int) {
	for _, f := range r.Faults {
		n += f.Missed
	}
	return n
}

// Kinds are the kinds of faults that it had.
func (r Run) Kinds() (names []string) {
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		if r.Faults[kind].Injected > 0 {
			names = append(names, kind)
		}
	}
	return names
}

// Lost is how many holders were told that they hold no longer, and had not given it up.
func (r Run) Lost() (n int) {
	for cause, times := range r.Numbers.Ends {
		if cause != history.GivenUp && cause != history.ClientShut {
			n += times
		}
	}
	return n
}

// Overlaps is how often two held at once in the order of the servers.
func (r Run) Overlaps() (n int) {
	for _, f := range r.Findings {
		if f.Rule == check.FirstInLine || f.Rule == check.LivingNode {
			n++
		}
	}
	return n
}

// IsRecorded reports whether the document says how often each promise was tested. Those of earlier runs do not.
func (r Run) IsRecorded() bool { return len(r.Promises) > 0 }

// Tested is how often a promise was tested in the run, with the verdict on it, in words.
func (r Run) Tested(rule check.Rule) string {
	if !r.IsRecorded() {
		return notRecorded
	}
	for _, p := range r.Promises {
		if p.Rule != rule {
			continue
		}
		if p.Verdict == torture.NotShown {
			return p.Verdict
		}
		return count(p.Tested) + ", " + p.Verdict
	}
	return "not asked"
}

// Partitioned is how many holders were partitioned and lost the lock to another client, in words.
func (r Run) Partitioned() string {
	if !r.IsRecorded() {
		return notRecorded
	}
	return count(r.Numbers.Partitioned)
}

// Load is what each process had beside its clients, in words.
func (r Run) Load() string {
	if r.Waiters+r.Holds == 0 {
		return "none"
	}
	return fmt.Sprintf("%s on each path, %s", count(r.Waiters), count(r.Holds))
}

// notRecorded stands for a number that the documents of earlier runs lack.
const notRecorded = "not recorded"

// Stopped is how many holders wrote late because they were not scheduled when another was granted the path.
func (r Run) Stopped() int { return r.Numbers.LateWriters[check.Paused] }

// Removed is how many because their node was deleted by hand, or that of who followed them.
func (r Run) Removed() int { return r.Numbers.LateWriters[check.ByOperator] }

// Told is how many although they had been told in time.
func (r Run) Told() int { return r.Numbers.LateWriters[check.NotifiedAndWrote] }

// Broken are the rules that it broke, each once.
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

// HasTokens says whether the fenced registers were asked.
func (r Run) HasTokens() bool { return r.Token != "none" }

// Waived are the rules that say nothing about it, with the reason.
func (r Run) Waived() []string {
	var whys []string
	rules := map[string][]string{}
	for _, u := range r.Unchecked {
		if !r.Own() && slices.Contains([]check.Rule{check.HeldState, check.EpochOrder, check.TrueAnswer}, u.Rule) {
			continue // nor is anybody else asked these
		}
		if rules[u.Why] == nil {
			whys = append(whys, u.Why)
		}
		rules[u.Why] = append(rules[u.Why], string(u.Rule))
	}
	for i, why := range whys {
		whys[i] = strings.Join(rules[why], ", ") + ": " + why
	}
	return whys
}

// Missing are the faults that do not exist for the library, by the reason.
func (r Run) Missing() []string {
	var whys []string
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Without)) {
		why := r.Without[name]
		if names[why] == nil {
			whys = append(whys, why)
		}
		names[why] = append(names[why], name)
	}
	for i, why := range whys {
		whys[i] = strings.Join(names[why], ", ") + ": " + why
	}
	return whys
}

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
