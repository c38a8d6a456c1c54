// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// A Run is a document and its file.
type Run struct {
	verdict.Result

	File string // below the folder of documents
	Code string // where the history has its code, as text: see Locate
}

// Name returns the name of the library.
func (r Run) Name() string {
	if r.Own() {
		return "Lockkeeper"
	}
	return r.Contender
}

// Short returns the name without the versions in parentheses behind it.
func (r Run) Short() string {
	name, _, _ := strings.Cut(r.Name(), " (")
	return name
}

// Title returns a title for a run of this library.
func (r Run) Title() string { return fmt.Sprintf("%s on %d servers", hours(r.Duration), r.Servers) }

// Injected returns how many faults were injected.
func (r Run) Injected() (n int) {
	for _, f := range r.Faults {
		n += f.Injected
	}
	return n
}

// AtReplicas lists the faults that were injected into the replicas of the lock service and their links.
func (r Run) AtReplicas() string {
	var parts []string
	for _, kind := range torture.ReplicaKinds() {
		if n := r.Faults[kind].Injected; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", kind, n))
		}
	}
	return strings.Join(parts, ", ")
}

// UnexplainedLeases returns how many acknowledged leases did not end by a release, an expiry, a revocation or an operator. It
// includes those that exist at the end.
func (r Run) UnexplainedLeases() int {
	l := r.Numbers.Leases
	return l.Granted - l.Released - l.Expired - l.Revoked - l.ByOperator
}

// Missed returns how many planned faults could not be injected.
func (r Run) Missed() (n int) {
	for _, f := range r.Faults {
		n += f.Missed
	}
	return n
}

// Kinds returns the kinds of faults that were injected.
func (r Run) Kinds() (names []string) {
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		if r.Faults[kind].Injected > 0 {
			names = append(names, kind)
		}
	}
	return names
}

// Lost returns how many holders were notified of a loss before they released.
func (r Run) Lost() (n int) {
	for cause, times := range r.Numbers.Ends {
		if cause != history.GivenUp && cause != history.ClientShut {
			n += times
		}
	}
	return n
}

// Overlaps returns the number of overlaps in ZooKeeper's commit order. Older documents do not have it, but findings, of which there are
// none if it is 0.
func (r Run) Overlaps() (n int) {
	if r.Numbers.Overlaps > 0 {
		return r.Numbers.Overlaps
	}
	for _, f := range r.Findings {
		if f.Rule == check.FirstInQueue || f.Rule == check.LivingNode {
			n++
		}
	}
	return n
}

// Tested returns how often a promise was tested in the run, with the verdict unless that is valid, as text.
func (r Run) Tested(rule check.Rule) string {
	for _, p := range r.Promises {
		if p.Rule != rule {
			continue
		}
		switch p.Verdict {
		case verdict.Valid:
			return count(p.Tested)
		case verdict.Unknown:
			return p.Verdict
		}
		return count(p.Tested) + ", " + p.Verdict
	}
	return "–"
}

// Partitioned returns how many holders were partitioned and lost the lock to another client.
func (r Run) Partitioned() int { return r.Numbers.Partitioned }

// Load returns the additional waiters and holds of each process, as text.
func (r Run) Load() string {
	if r.Waiters+r.Holds == 0 {
		return "none"
	}
	return fmt.Sprintf("%s on each path, %s", count(r.Waiters), count(r.Holds))
}

// Stopped returns how many holders sent stale writes because they were not scheduled when another client was granted the path.
func (r Run) Stopped() int { return r.Numbers.StaleWriters[check.Paused] }

// Deleted returns how many did because an operator deleted their node, or their successor's.
func (r Run) Deleted() int { return r.Numbers.StaleWriters[check.ByOperator] }

// Notified returns how many did although they had been notified in time.
func (r Run) Notified() int { return r.Numbers.StaleWriters[check.NotifiedAndWrote] }

// StaleWriters returns how many holders sent stale writes, by the reason, as text.
func (r Run) StaleWriters() string {
	return fmt.Sprintf("%d, %d, %d, %d", r.Stopped(), r.Deleted(), r.Notified(), r.Numbers.StaleWriters[check.Unexcused])
}

// Broken returns the rules that the run broke, each once.
func (r Run) Broken() string {
	var rules []string
	for _, f := range r.Findings {
		if !slices.Contains(rules, string(f.Rule)) {
			rules = append(rules, string(f.Rule))
		}
	}
	return strings.Join(rules, ", ")
}

// Unavailable returns the longest time in which a client asked for a path and no client held it, over all paths.
func (r Run) Unavailable() (longest history.Instant) {
	for _, d := range r.Numbers.Unavailable {
		longest = max(longest, d)
	}
	return longest
}

// Unexplained returns the longest part of such a time that nothing explains, as text, where a run judges check.HolderInTime. The
// uncontended locks of each process are not judged.
func (r Run) Unexplained() string {
	if !slices.ContainsFunc(r.Promises, func(p verdict.Promise) bool { return p.Rule == check.HolderInTime }) {
		return ""
	}
	var longest history.Instant
	for path, d := range r.Numbers.Unexcused {
		if path != verdict.Holds {
			longest = max(longest, d)
		}
	}
	return fmt.Sprintf("; unexplained %s (%s)", short(longest), r.InT(longest))
}

// InT returns d as a multiple of the session timeout.
func (r Run) InT(d history.Instant) string {
	if r.Timeout == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f T", float64(d)/float64(r.Timeout))
}

// HasTokens reports whether the library has tokens, and so the run fenced registers.
func (r Run) HasTokens() bool { return r.Token != "none" }

func short(i history.Instant) string { return time.Duration(i).Round(time.Millisecond).String() }

// hours formats a duration in hours and minutes.
func hours(i history.Instant) string {
	d := time.Duration(i).Round(time.Minute)
	if d < time.Hour {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	if d >= 100*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
}

// count separates thousands.
func count(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
