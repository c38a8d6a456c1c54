// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

// good returns a run without findings that tested every promise.
func good(t *testing.T) *Result {
	t.Helper()
	r := untested(t)
	// One waiter loses its node to an operator.
	var session history.ID
	for _, e := range r.History {
		if e.Kind == history.Granted && e.Session != 0 {
			session = e.Session
		}
	}
	node := "/torture/a/1-lock-0000009999"
	end := r.History[len(r.History)-1].At
	add := func(before time.Duration, e history.Event) {
		e.At = end - history.Instant(before)
		r.History = append(r.History, e)
	}
	add(2, history.Event{Kind: history.Created, Node: node, Session: session, Zxid: 1 << 40})
	add(1, history.Event{Kind: history.Deleted, Node: node, Session: 7, Zxid: 1<<40 + 1, Cause: history.ByOperator})
	// One holder loses its session, and the lock to another client.
	const path = "/torture/lost"
	attempt := func(before time.Duration, contender string, number int, kind history.Kind, token history.ID, cause history.Cause) {
		add(before, history.Event{Kind: kind, Contender: contender, Attempt: number, Path: path, Token: token, Cause: cause})
	}
	for n, contender := range []string{"c8.1", "c9.1"} {
		id := history.ID(1<<41 + n)
		attempt(time.Duration(15-n)*time.Second, contender, 9001+n, history.Asked, 0, "")
		add(time.Duration(15-n)*time.Second-1, history.Event{Kind: history.Created, Node: fmt.Sprintf("%s/1-lock-%010d", path, n), Session: id, Zxid: id})
	}
	attempt(15*time.Second-2, "c8.1", 9001, history.Granted, 1<<41, "")
	attempt(12*time.Second, "c8.1", 9001, history.Notified, 0, history.Deadline)
	add(10*time.Second, history.Event{Kind: history.Deleted, Node: path + "/1-lock-0000000000", Session: 1 << 41, Zxid: 1<<41 + 2, Cause: history.ByTimeout})
	attempt(9*time.Second, "c9.1", 9002, history.Granted, 1<<41+1, "")
	attempt(8*time.Second, "c9.1", 9002, history.Releasing, 0, "")
	attempt(8*time.Second-1, "c9.1", 9002, history.Notified, 0, history.GivenUp)
	add(8*time.Second-2, history.Event{Kind: history.Deleted, Node: path + "/1-lock-0000000001", Session: 1<<41 + 1, Zxid: 1<<41 + 3, Cause: history.ByRequest})
	// Its deadline passes once more, and its session continues.
	attempt(7*time.Second, "c9.1", 9003, history.Asked, 0, "")
	add(7*time.Second-1, history.Event{Kind: history.Created, Node: path + "/1-lock-0000000002", Session: 1<<41 + 1, Zxid: 1<<41 + 4})
	attempt(7*time.Second-2, "c9.1", 9003, history.Granted, 1<<41+4, "")
	attempt(6*time.Second, "c9.1", 9003, history.Notified, 0, history.Deadline)
	add(4*time.Second, history.Event{Kind: history.Deleted, Node: path + "/1-lock-0000000002", Session: 1<<41 + 1, Zxid: 1<<41 + 5, Cause: history.ByRequest})
	r.History = history.InOrder(r.History)
	return r
}

// untested returns a run without findings in which no waiter lost its node, and no holder the lock to another client.
func untested(t *testing.T) *Result {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "histories", "good", "torture.jsonl"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	events, err := history.Read(file)
	require.NoError(t, err)
	return &Result{
		Token: "czxid", ZooKeeper: "3.8.0", History: events, Findings: []Finding{}, Problems: []string{},
		Faults: map[string]FaultCount{"kill-server": {Injected: 1}}, Writes: register.Writes{All: 100, Stale: 2, Rejected: 2, AcceptedByBare: 2, Writers: 1},
	}
}

func TestEachProblemChangesTheVerdict(t *testing.T) {
	r := good(t)
	Rejudge(r)
	require.Empty(t, r.Findings)
	require.Empty(t, r.Problems)
	require.Equal(t, Valid, r.Verdict)
	require.NotEmpty(t, r.Judged)

	failed := func(r *Result, why string) {
		for i := range r.History {
			if r.History[i].Kind == history.Failed {
				r.History[i].Error = why
				return
			}
		}
		panic("no attempt has failed")
	}
	for name, c := range map[string]struct {
		change func(r *Result)
		want   string
	}{
		"a stale write that a fenced register accepted":  {func(r *Result) { r.Writes.AcceptedByFenced = 1 }, "accepted 1 stale writes"},
		"a write that was rejected without being stale":  {func(r *Result) { r.Writes.WronglyRejected = 1 }, "rejected 1 others"},
		"an error that no caller should get":             {func(r *Result) { failed(r, "zk: node has children") }, "zk: node has children"},
		"a timeout of a request without one":             {func(r *Result) { addUnrequestedTimeout(r) }, "context deadline exceeded"},
		"a problem recorded during the run":              {func(r *Result) { r.Problems = []string{"c1 ended: exit status 2"} }, "c1 ended"},
		"a stale write in the history that was accepted": {func(r *Result) { acceptStaleWrite(r) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := good(t)
			c.change(r)
			Rejudge(r)
			require.Equal(t, Broken, r.Verdict)
			if c.want == "" {
				require.NotEmpty(t, r.Findings)
				return
			}
			require.Len(t, r.Problems, 1)
			require.Contains(t, r.Problems[0], c.want)
			problems := r.Problems
			Rejudge(r)
			require.Equal(t, problems, r.Problems, "a second check gives the same result")
		})
	}
}

// Two contenders stay ahead in the queue: each grant has two findings, of which the document has a few.
func TestEachGrantThatOverlapsIsCountedOnce(t *testing.T) {
	const path, grants = "/torture/overlapping", 30
	r := good(t)
	end := r.History[len(r.History)-1].At
	add := func(at history.Instant, e history.Event) {
		e.At = at
		r.History = append(r.History, e)
	}
	created := func(n int) history.Event {
		return history.Event{Kind: history.Created, Node: fmt.Sprintf("%s/1-lock-%010d", path, n), Session: 5, Zxid: history.ID(1<<42 + n)}
	}
	deleted := func(n int) history.Event {
		e := created(n)
		e.Kind, e.Zxid, e.Cause = history.Deleted, e.Zxid+1<<20, history.ByRequest
		return e
	}
	for n := range 2 {
		add(end-1000, created(n))
		add(end-1, deleted(n))
	}
	for n := 2; n < 2+grants; n++ {
		at := end - 900 + history.Instant(10*n)
		by := func(kind history.Kind) history.Event {
			return history.Event{Kind: kind, Contender: "c9.2", Attempt: 9100 + n, Path: path}
		}
		granted, notified := by(history.Granted), by(history.Notified)
		granted.Token, notified.Cause = created(n).Zxid, history.GivenUp
		add(at, by(history.Asked))
		add(at+1, created(n))
		add(at+2, granted)
		add(at+3, by(history.Releasing))
		add(at+4, notified)
		add(at+5, deleted(n))
	}
	r.History = history.InOrder(r.History)
	Rejudge(r)
	require.Equal(t, grants, r.Numbers.Overlaps)
	require.Equal(t, Broken, r.Verdict)
	for _, f := range r.Findings {
		require.Equal(t, check.FirstInQueue, f.Rule, f.Text)
	}
	require.Len(t, r.Findings, maxReported)
	require.Equal(t, []string{Unreported(2*grants-maxReported, check.FirstInQueue)}, r.Problems)
}

// A library that proves no session is granted a lock after its node is gone. It does not promise that this never happens.
func TestGrantThatBreaksAnUncheckedRuleIsNoOverlap(t *testing.T) {
	const path = "/torture/granted-late"
	node := history.Event{Node: path + "/1-lock-0000000000", Session: 5, Zxid: 1 << 42}
	for notifiedBy, overlaps := range map[string]int{"": 1, "a timer": 0} {
		r := good(t)
		r.NotifiedBy = notifiedBy
		end := r.History[len(r.History)-1].At
		add := func(before time.Duration, kind history.Kind, e history.Event) {
			e.At, e.Kind = end-history.Instant(before), kind
			if kind != history.Created && kind != history.Deleted {
				e.Contender, e.Attempt, e.Path = "c9.2", 9100, path
			}
			r.History = append(r.History, e)
		}
		add(9*time.Second, history.Asked, history.Event{})
		add(8*time.Second, history.Created, node)
		gone := node
		gone.Zxid, gone.Cause = gone.Zxid+1, history.ByTimeout
		add(4*time.Second, history.Deleted, gone)
		add(2*time.Second, history.Granted, history.Event{Token: node.Zxid})
		add(time.Second, history.Releasing, history.Event{})
		add(time.Second-1, history.Notified, history.Event{Cause: history.GivenUp})
		r.History = history.InOrder(r.History)
		Rejudge(r)
		require.Equal(t, overlaps, r.Numbers.Overlaps, notifiedBy)
		isFound := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Rule == check.LivingNode })
		require.Equal(t, overlaps > 0, isFound, notifiedBy)
	}
}

func TestFailureOfTheHarnessIsNotAVerdictOnTheLibrary(t *testing.T) {
	r := good(t)
	r.Failures = []string{"heal at 8s for 5s kill-server 1: it did not serve within 34s"}
	Rejudge(r)
	require.Equal(t, Unsound, r.Verdict)
	var summary strings.Builder
	require.NoError(t, r.WriteSummary(&summary))
	require.Contains(t, summary.String(), "FAILURE OF THE HARNESS heal at 8s")
	require.NotContains(t, summary.String(), "PROBLEM")

	r.Writes.AcceptedByFenced = 1
	Rejudge(r)
	require.Equal(t, Broken, r.Verdict, "what was found stands")

	r = untested(t)
	r.Failures = []string{"server 2 has ended unexpectedly"}
	Rejudge(r)
	require.Equal(t, Unsound, r.Verdict, "the harness may be the reason why a promise was not tested")
}

func TestUntestedPromiseIsUnknown(t *testing.T) {
	verdicts := func(r *Result) map[check.Rule]string {
		of := map[check.Rule]string{}
		for _, p := range r.Promises {
			require.NotEmpty(t, p.By)
			require.Equal(t, p.Verdict == Unknown, p.Tested == 0, p.Rule)
			of[p.Rule] = p.Verdict
		}
		return of
	}
	r := untested(t)
	Rejudge(r)
	require.Empty(t, r.Findings)
	require.Empty(t, r.Problems)
	require.Equal(t, Unknown, r.Verdict)
	require.Equal(t, Unknown, verdicts(r)[check.LivingNode])
	require.Equal(t, Unknown, verdicts(r)[check.NotifiedFirst])
	require.Equal(t, Valid, verdicts(r)[check.RisingTokens])
	var summary strings.Builder
	require.NoError(t, r.WriteSummary(&summary))
	require.Contains(t, summary.String(), "living-node                unknown, tested 0 times")

	require.Zero(t, r.FirstFinding)

	// A finding takes precedence.
	acceptStaleWrite(r)
	Rejudge(r)
	require.Positive(t, r.FirstFinding)
	require.Equal(t, Broken, r.Verdict)
	require.Equal(t, Broken, verdicts(r)[check.FencedRegister])
	require.Equal(t, Unknown, verdicts(r)[check.LivingNode])

	for name, c := range map[string]struct {
		change func(r *Result)
		want   string
	}{
		"a kind of fault that was never injected": {func(r *Result) { r.Faults["slow"] = FaultCount{Missed: 3} }, "fault slow: never injected in 3 attempts"},
		"a fault that was planned once":           {func(r *Result) { r.Faults["slow"] = FaultCount{Missed: 1} }, "fault slow: never injected in 1 attempts"},
		"a counter that did not reach its end":    {func(r *Result) { r.Faults["counter"] = FaultCount{Injected: 1}; r.Counter = 2147483637 }, "fault counter: the next number is 2147483637"},
		"nothing granted":                         {func(r *Result) { r.History = r.History[:1] }, "nothing was granted"},
	} {
		r := good(t)
		c.change(r)
		Rejudge(r)
		require.Equal(t, Unknown, r.Verdict, name)
		require.Len(t, r.Untried, 1, name)
		require.Contains(t, r.Untried[0], c.want)
		untried := r.Untried
		Rejudge(r)
		require.Equal(t, untried, r.Untried, "a second check gives the same result")
	}

	// No holder lost its lock: nothing is shown about notifications.
	r = untested(t)
	for i := range r.History {
		if e := &r.History[i]; e.Kind == history.Deleted && e.Cause == history.ByTimeout {
			e.Cause = history.ByRequest
		}
	}
	Rejudge(r)
	require.Equal(t, Unknown, verdicts(r)[check.NotifiedAtAll])
	require.NotContains(t, verdicts(r), check.HeldState, "a rule that is not checked has no verdict")
}

func addUnrequestedTimeout(r *Result) {
	for i := range r.History {
		if r.History[i].Kind == history.Failed {
			for j := range r.History {
				if r.History[j].Kind == history.Asked && r.History[j].Attempt == r.History[i].Attempt {
					r.History[j].Text = "lock"
				}
			}
			r.History[i].Error = context.DeadlineExceeded.Error()
			return
		}
	}
}

func acceptStaleWrite(r *Result) {
	for i := range r.History {
		if e := &r.History[i]; e.Kind == history.Wrote && !e.Accepted {
			e.Accepted = true
			return
		}
	}
}

func TestRivalIsNotCheckedForLockkeepersPromises(t *testing.T) {
	r := good(t)
	r.NotifiedBy, r.ZooKeeper, r.Token = "a timer", "", NoToken
	Rejudge(r)
	var left []check.Rule
	for _, u := range r.Unchecked {
		left = append(left, u.Rule)
		require.NotEmpty(t, u.Why)
	}
	require.ElementsMatch(t, check.Rules(), left)
	require.Equal(t, Valid, r.Verdict, "stale beliefs are still checked: %v", r.Findings)
	require.Len(t, r.Promises, 1)
	require.Equal(t, check.SoleHolder, r.Promises[0].Rule)
}

// Runs that were recorded before others stated when there was a quorum are judged again without the rule.
func TestTimeWithoutAHolderIsJudgedOnlyIfTheRunRecordsTheQuorum(t *testing.T) {
	unchecked := func(r *Result) bool {
		Rejudge(r)
		return slices.ContainsFunc(r.Unchecked, func(u Unchecked) bool { return u.Rule == check.HolderInTime })
	}
	r := good(t)
	require.True(t, unchecked(r))
	r.History = slices.Insert(r.History, 1, history.Event{Kind: history.Quorum})
	require.False(t, unchecked(r))
	r.Replicas = 2
	require.True(t, unchecked(r), "leases of the service have no such bound")
}

func TestRecipeThatWasNeverExercisedIsUnknown(t *testing.T) {
	r := good(t)
	r.Recipes = map[string]int{"lock": 0, "several locks": 0, "schedule": 0, "published value": 0, "observer": 0, "takeover": 0, "barrier": 0, "double barrier": 0}
	Rejudge(r)
	require.Equal(t, Unknown, r.Verdict)
	require.Len(t, r.Untried, 7)
	require.Contains(t, r.Untried[4], "recipe schedule: never granted or run")
	require.Contains(t, r.Untried[5], "recipe several locks: never granted or run")
	require.Positive(t, r.Recipes["lock"])
	verdicts := map[check.Rule]string{}
	for _, p := range r.Promises {
		verdicts[p.Rule] = p.Verdict
	}
	require.Equal(t, Unknown, verdicts[check.AllOrNothing])
	require.Equal(t, Unknown, verdicts[check.ActivationOnce])
	require.Equal(t, Unknown, verdicts[check.TrueLeader])
	require.Equal(t, Unknown, verdicts[check.HeldState])
	require.Equal(t, Unknown, verdicts[check.CrashOrClean])
	for _, rule := range []check.Rule{check.OpenBarrier, check.FullRound, check.WholeRound} {
		require.Equal(t, Unknown, verdicts[rule])
	}
	require.NotContains(t, verdicts, check.PermitsWithinLimit, "these contenders had no semaphore")
}

func TestLeaderThatNoObserverMayBeShownIsAFinding(t *testing.T) {
	r := good(t)
	r.Recipes = map[string]int{"observer": 0}
	granted := r.History[slices.IndexFunc(r.History, func(e history.Event) bool { return e.Kind == history.Granted })]
	shown := history.Event{Kind: history.Observed, At: granted.At, Contender: "c9.1", Path: granted.Path, Token: granted.Token, Write: 161}
	r.History = slices.Insert(r.History, len(r.History)-1, shown)
	Rejudge(r)
	require.Equal(t, Broken, r.Verdict)
	require.Contains(t, r.Findings[0].Text, "a value that the leader had not published")
	require.Equal(t, check.TrueLeader, r.Findings[0].Rule)
}

func TestBarrierThatIsSetAndRoundThatIsNotFullAreFindings(t *testing.T) {
	const barrier, double = "/torture/barrier", "/torture/double"
	r := good(t)
	end := r.History[len(r.History)-1]
	at := func(e history.Event) history.Event {
		e.At, e.Contender = end.At, "c9.1"
		return e
	}
	met := []history.Event{
		{Kind: history.Created, At: end.At / 2, Node: barrier, Session: 9, Zxid: 1 << 40},
		{Kind: history.Created, At: end.At / 2, Node: double + "/1-1/m", Session: 9, Zxid: 1<<40 + 1},
	}
	member := history.Event{Path: double, Node: double + "/1-1/m", Limit: 2}
	for _, kind := range []history.Kind{history.Waiting, history.Passed, history.Entering, history.Entered} {
		e := member
		if kind == history.Waiting || kind == history.Passed {
			e = history.Event{Path: barrier}
		}
		e.Kind = kind
		met = append(met, at(e))
	}
	r.History = history.InOrder(append(slices.Clone(r.History[:len(r.History)-1]), append(met, end)...))
	for _, exercised := range []bool{false, true} {
		if exercised {
			r.Recipes = map[string]int{"barrier": 0, "double barrier": 0}
		}
		Rejudge(r)
		var broken []check.Rule
		for _, f := range r.Findings {
			broken = append(broken, f.Rule)
		}
		require.Equal(t, exercised, slices.Contains(broken, check.OpenBarrier), broken)
		require.Equal(t, exercised, slices.Contains(broken, check.FullRound), broken)
	}
	require.Equal(t, Broken, r.Verdict)
}

func TestUnavailabilityOfUncontendedHoldsIsOneNumber(t *testing.T) {
	of := map[string]history.Instant{"/torture/a": 3, "/torture/holds/1/7": 5, "/torture/holds/2/1": 4}
	collapseHolds(of)
	require.Equal(t, map[string]history.Instant{"/torture/a": 3, Holds: 5}, of)
}

func TestEachRecipeIsCounted(t *testing.T) {
	asked := func(attempt, together int, text string) history.Event {
		return history.Event{Kind: history.Asked, Attempt: attempt, Together: together, Text: text}
	}
	events := []history.Event{
		asked(1, 0, "lock, for 3s"), asked(2, 0, "try"), asked(3, 0, "campaign"), asked(4, 0, "read"), asked(5, 0, "downgrade"), asked(6, 0, "acquire2"),
		asked(7, 0, "tryacquire"), asked(8, 8, "all, for 1s"), asked(9, 8, "all, for 1s"), asked(10, 0, "lock"), asked(11, 0, "write"), asked(12, 0, "nest"),
		asked(13, 0, "tryslot"),
		{Kind: history.Downgraded},
		{Kind: history.Listed},
		{Kind: history.Ran},
		{Kind: history.Ran},
		{Kind: history.Working},
		{Kind: history.Proclaimed},
		{Kind: history.HandedOver},
		{Kind: history.Observed},
		{Kind: history.Fenced},
		{Kind: history.Passed},
		{Kind: history.Left},
	}
	for attempt := range 14 {
		if attempt != 10 {
			events = append(events, history.Event{Kind: history.Granted, Attempt: attempt})
		}
	}
	require.Equal(t, map[string]int{
		"lock": 2, "election": 1, "reader": 1, "writer": 2, "downgrade": 1, "permits": 2, "several locks": 1, "nested lock": 1, "schedule": 2, "partition": 1,
		"group": 1, "published value": 1, "hand-over": 1, "observer": 1, "takeover": 1, "barrier": 1, "double barrier": 1, "slot": 1,
	}, exercised(events))
	require.Len(t, exercised(events), len(recipes), "each recipe was exercised")
}
