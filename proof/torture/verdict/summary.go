// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// WriteSummary writes a summary for people.
func (r *Result) WriteSummary(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-28s %s\n", name, fmt.Sprintf(format, args...))
	}
	n := &r.Numbers
	line("verdict", "%s", r.Verdict)
	for _, p := range r.Promises {
		line("  "+string(p.Rule), "%s, tested %d times (%s)", p.Verdict, p.Tested, p.By)
	}
	line("contender", "%s; tokens: %s", r.Contender, r.Token)
	if r.Mutant != "" {
		line("mutant", "%s: the library is broken deliberately", r.Mutant)
	}
	line("run", "%v on %d servers (%s), T %v, tick %v, seed %d, commit %s, %s", r.Duration, r.Servers, r.On,
		r.Timeout, r.Tick, r.Seed, r.Commit, r.Go)
	line("contenders", "%d processes with %d clients each; %d were killed, %d pauses", r.Contenders, r.Clients, n.Crashed, n.Pauses)
	if r.Replicas > 0 {
		line("replicas", "%d of the lock service, which every second contender used", r.Replicas)
	}
	if r.Waiters+r.Holds > 0 {
		line("load", "in each process %d additional contenders on each path, and %d additional locks held", r.Waiters, r.Holds)
	}
	line("partitioned holders", "%d lost the lock", n.Partitioned)
	line("stopped holders", "%d sent stale writes", r.StoppedWriters())
	line("grants", "%d of %d requested; %d sessions expired, %d parents reaped", n.Grants, n.Asked, r.Expired, r.Reaped)
	line("ends", "%s", counts(n.Ends))
	if len(r.Recipes) > 0 {
		line("recipes", "%s", counts(r.Recipes))
	}
	if l := n.Leases; r.Replicas > 0 {
		line("leases", "%d granted, renewed %d times; %d released, %d expired, %d revoked, %d deleted by an operator, %d left", l.Granted,
			l.Renewals, l.Released, l.Expired, l.Revoked, l.ByOperator, l.Left)
		line("leases outlived holders by", "%v at worst, of %d", l.OutlivedBy.Worst, l.OutlivedBy.Of)
	}
	line("late notifications", "%d of running holders (worst %v)", n.LateNotifications, n.LongestDelay)
	line("stale beliefs", "%d of running holders (worst %v)", n.StaleBeliefs, n.LongestStaleBelief)
	line("excused", "%d holders paused, for at least %v; %d whose node an operator deleted", n.Unscheduled, short(n.ShortestPause), n.ByOperator)
	line("notified before expiry", "%v at worst, of %d", n.NotifiedBeforeExpiry.Worst, n.NotifiedBeforeExpiry.Of)
	line("notified before next grant", "%v at worst, of %d", n.NotifiedBeforeGrant.Worst, n.NotifiedBeforeGrant.Of)
	stale := fmt.Sprintf("%d by %d writers (%s) reached the registers: the bare ones accepted %d", r.Writes.Stale, r.Writes.Writers,
		counts(n.StaleWriters), r.Writes.AcceptedByBare)
	if r.Token == NoToken {
		line("stale writes", "%s, and no register can reject them", stale)
	} else {
		line("falling tokens", "%d", n.FallingTokens)
		line("stale writes", "%s, the fenced ones rejected %d and accepted %d", stale, r.Writes.Rejected, r.Writes.AcceptedByFenced)
	}
	if r.ZooKeeper != "" {
		line("nodes left", "%d", n.NodesLeft)
	}
	line("unanswered", "%d; the longest wait was %v", n.Unanswered, short(n.LongestWait))
	for _, path := range slices.Sorted(maps.Keys(n.Unavailable)) {
		unexcused := ""
		if d, known := n.Unexcused[path]; known {
			unexcused = fmt.Sprintf("; unexplained %v", short(d))
		}
		line("longest unavailable", "%s %v%s", path, short(n.Unavailable[path]), unexcused)
	}
	line("failures", "%s", counts(n.Failures))
	if r.ZooKeeper != "" {
		line("commit order", "%d transactions, %d never committed", r.Transactions, r.Uncommitted)
		if r.Counter != 0 {
			line("counter", "%d, of %d", r.Counter, math.MaxInt32)
		}
	}
	injected, missed := map[string]int{}, map[string]int{}
	for name, count := range r.Faults {
		injected[name] = count.Injected
		if count.Missed > 0 {
			missed[name] = count.Missed
		}
	}
	line("faults", "%s", counts(injected))
	line("faults not injected", "%s", cmp.Or(counts(missed), "none"))
	for _, path := range slices.Sorted(maps.Keys(r.Acquired)) {
		line("acquired at the end", "%s after %v", path, short(r.Acquired[path]))
	}
	for _, u := range r.Unchecked {
		line("not checked", "%s: %s", u.Rule, u.Why)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Without)) {
		line("no such fault", "%s: %s", name, r.Without[name])
	}
	if r.FirstFinding > 0 {
		line("first finding", "after %v", short(r.FirstFinding))
	}
	for _, text := range r.Untried {
		line("not tried", "%s", text)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\nFINDING %s\n", f.Text)
	}
	for _, text := range r.Problems {
		fmt.Fprintf(&b, "\nPROBLEM %s\n", text)
	}
	for _, text := range r.Failures {
		fmt.Fprintf(&b, "\nFAILURE OF THE HARNESS %s\n", text)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	return nil
}

// counts returns the entries of a map on one line, sorted by their keys.
func counts[K cmp.Ordered](of map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%v %d", k, of[k]))
	}
	return strings.Join(parts, ", ")
}

// short rounds an instant to milliseconds.
func short(i history.Instant) time.Duration { return time.Duration(i).Round(time.Millisecond) }
