// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

const docs = "../../../docs"

// codeCell matches where the page says that the history has the code of a run.
var codeCell = regexp.MustCompile(`\d+ commits? ago`)

// ago returns the number in a cell.
func ago(t *testing.T, cell string) (n int) {
	t.Helper()
	_, err := fmt.Sscanf(cell, "%d commit", &n)
	require.NoError(t, err)
	return n
}

func TestEvidencePageMatchesItsDocuments(t *testing.T) {
	runs, err := Read(filepath.Join(docs, "evidence"))
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(docs, "evidence.md"))
	require.NoError(t, err)
	stated := codeCell.FindAllString(string(written), -1)
	err = runs.Locate(docs)
	if errors.Is(err, ErrNoHistory) {
		t.Logf("%v: all else on the page is compared", err)
	} else {
		require.NoError(t, err)
	}
	// Each commit changes these numbers: they may be a little old. Without a history they stay as they are written.
	runs.each(func(run *Run) {
		if strings.HasPrefix(run.File, CampaignFile) {
			return // the page does not state its code
		}
		require.NotEmpty(t, stated, "`make evidence` generates the page")
		if run.Code != "" {
			require.InDelta(t, ago(t, run.Code), ago(t, stated[0]), 100, "%s: the page says %q, and it was %q: `make evidence` generates it", run.File, stated[0], run.Code)
		}
		run.Code, stated = stated[0], stated[1:]
	})
	page, err := Page(runs)
	require.NoError(t, err)
	require.Equal(t, string(written), page, "`make evidence` generates it")
}

// The central claim of docs/proof.md states how often the runs tested it.
func TestProofPageHasTheNumberOfStaleWrites(t *testing.T) {
	runs, err := Read(filepath.Join(docs, "evidence"))
	require.NoError(t, err)
	proof, err := os.ReadFile(filepath.Join(docs, "proof.md"))
	require.NoError(t, err)
	for _, want := range []string{
		fmt.Sprintf(" %d times, a holder that had been stopped resumed and sent a stale write", runs.Stopped()),
		fmt.Sprintf(" %s stale writes of %d holders", count(runs.Stale()), runs.Writers()),
		fmt.Sprintf(" the nodes of %d, and %d had been notified", runs.Deleted(), runs.sum(Run.Notified)),
	} {
		require.True(t, strings.Contains(strings.Join(strings.Fields(string(proof)), " "), want), "docs/proof.md does not say %q", want)
	}
	require.Zero(t, runs.AcceptedByFenced(), "docs/proof.md says that the registers that check the token accepted none")
}

// The checker finds the stale writers in the history, and the registers count them while they decide.
func TestCheckerAndRegistersCountTheSameStaleWriters(t *testing.T) {
	runs, err := Read(filepath.Join(docs, "evidence"))
	require.NoError(t, err)
	runs.each(func(run *Run) {
		counted := 0
		for _, n := range run.Numbers.StaleWriters {
			counted += n
		}
		require.Equal(t, run.Writes.Writers, counted, run.File)
	})
}

// repository returns a repository with a commit for each content of lock/a, and a function that runs git there.
func repository(t *testing.T, contents ...string) (string, func(args ...string) string) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lock"), 0o700))
	for _, content := range contents {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "lock", "a"), []byte(content), 0o600))
		git("add", ".")
		git("commit", "-q", "--allow-empty", "-m", content)
	}
	return dir, git
}

func TestCodeOfARunIsFoundByItsFoldersAfterItsCommitWasMadeAgain(t *testing.T) {
	dir, git := repository(t, "one", "two", "two", "three")
	made := git("rev-parse", "HEAD~2:lock")[:12]
	git("commit", "-q", "--amend", "-m", "another")
	var run verdict.Result
	run.Commit, run.Trees = "0123456789ab", map[string]string{"lock": made}
	runs := &Runs{Ours: []Run{{Result: run}}}
	require.NoError(t, runs.Locate(dir))
	require.Equal(t, "1 commit ago", runs.Ours[0].Code, "the newest one that has the folders")
}

func TestRunWhoseCodeNoCommitHasIsNoEvidence(t *testing.T) {
	dir, git := repository(t, "one")
	var run, anonymous verdict.Result
	run.Commit, run.Trees = git("rev-parse", "HEAD")[:12], map[string]string{"lock": "0123456789ab"}
	anonymous.Commit = run.Commit
	runs := &Runs{Ours: []Run{{Result: run, File: "a.json"}, {Result: anonymous, File: "b.json"}}}
	err := runs.Locate(dir)
	require.ErrorContains(t, err, "evidence: a.json: no commit of the history has the folders of the product")
	require.ErrorContains(t, err, "evidence: b.json: no commit", "a commit that is made again is not enough")

	require.ErrorIs(t, runs.Locate(t.TempDir()), ErrNoHistory, "an export")
	clone := filepath.Join(t.TempDir(), "clone")
	git("clone", "-q", "--depth", "1", "file://"+dir, clone)
	require.ErrorIs(t, runs.Locate(clone), ErrNoHistory, "a shallow clone")
}

func TestNumbersOfTheDocumentsAreOnThePage(t *testing.T) {
	var ours, other verdict.Result
	ours.Numbers.Grants, ours.Numbers.StaleBeliefs, ours.Numbers.NodesLeft = 1001001, 17, 23
	ours.Writes.Stale, ours.Writes.AcceptedByFenced, ours.Writes.Writers = 29, 31, 43
	ours.Numbers.StaleWriters = map[check.Reason]int{check.Paused: 36, check.ByOperator: 4, check.NotifiedAndWrote: 2, check.Unexcused: 1}
	ours.Findings = []verdict.Finding{{Rule: check.FirstInQueue, Text: "a predecessor was queued"}}
	ours.Faults = map[string]verdict.FaultCount{"kill-server": {Injected: 37, Missed: 2}}
	other.Contender, other.Token, other.NotifiedBy, other.Limits = "a rival", "none", "a timer", "One server"
	other.Numbers.StaleWriters = map[check.Reason]int{check.Paused: 8}
	other.Numbers.StaleBeliefs, other.Numbers.Ends = 41, map[history.Cause]int{history.Deadline: 47, history.GivenUp: 1000}
	ours.Unchecked = []verdict.Unchecked{{Rule: check.FirstInQueue, Why: "too long"}}
	recorded := ours
	recorded.Servers, recorded.Numbers.Partitioned, recorded.Waiters, recorded.Holds = 5, 61, 1500, 200
	recorded.Timeout = history.Instant(4 * time.Second)
	ours.Numbers.Unavailable = map[string]history.Instant{"/a": history.Instant(9 * time.Second)}
	recorded.Numbers.Unavailable, recorded.Numbers.Unexcused = ours.Numbers.Unavailable, map[string]history.Instant{"/a": 5e8, "/b": 1e9, verdict.Holds: 7e9}
	recorded.Promises = []verdict.Promise{
		{Rule: check.HolderInTime, Verdict: verdict.Valid},
		{Rule: check.NotifiedFirst, Tested: 1067, By: "running holders", Verdict: verdict.Valid},
		{Rule: check.LivingNode, By: "waiters", Verdict: verdict.Unknown},
		{Rule: check.FencedRegister, Tested: 71, By: "stale writers", Verdict: verdict.Broken},
	}
	page, err := Page(&Runs{Ours: []Run{{Result: ours, File: "ours.json"}, {Result: recorded, File: "recorded.json"}}})
	require.NoError(t, err)
	for _, want := range []string{
		"| holders that were partitioned, and lost the lock to another client | 0 | 61 |",
		"| longest time without a possible holder | 9s (–) | 9s (2.2 T); unexplained 1s (0.2 T) |",
		"| additional contenders and held locks, in each process | none | 1,500 on each path, 200 |",
		check.NotifiedFirst.Meaning() + " | – | 1,067 |", check.LivingNode.Meaning() + " | – | unknown |", check.FencedRegister.Meaning() + " | – | 71, broken |",
	} {
		require.Contains(t, page, want)
	}
	page, err = Page(&Runs{
		Ours: []Run{{Result: ours, File: "ours.json"}}, Compared: []Run{{Result: ours, File: "compared/ours.json"}, {Result: other, File: "compared/other.json"}},
		Aimed: []Run{{Result: other, File: "aimed/other.json"}},
	})
	require.NoError(t, err)
	for _, want := range []string{
		"1,001,001 grants", "in ZooKeeper's commit order: **1**", "granted to another client: **17**", "Nodes left behind: **23**",
		"| stale writes that reached the registers | 29 |", "from 43 holders:\n**36** had been stopped", ", 4 had lost their node", "accepted **31**",
		"**1 findings", "first-in-queue: a predecessor was queued", "| kill-server | " + torture.Describe("kill-server") + " | 37 |", "| faults injected, not injected | 37, 2 |",
		"| notified late, while scheduled; the longest | 17, 0s | 41, 0s |", "| notified late, while scheduled; the longest | 41, 0s |", "| holders that lost their lock and survived | 0 | 47 |",
		"notified in time, notified late | 36, 4, 2, 1 |", "notified in time, notified late | 36, 4, 2, 1 | 8, 0, 0, 0 |",
		"- a rival: One server.", "- **Not checked**: first-in-queue: too long.",
	} {
		require.Contains(t, page, want)
	}
}

// A document lists the first findings of a rule only.
func TestOverlapsAreThoseThatTheDocumentCountsOrElseItsFindings(t *testing.T) {
	var run Run
	require.Zero(t, run.Overlaps())
	run.Findings = []verdict.Finding{{Rule: check.FirstInQueue}, {Rule: check.LivingNode}, {Rule: check.RisingTokens}}
	require.Equal(t, 2, run.Overlaps(), "an older document")
	run.Numbers.Overlaps = 30
	require.Equal(t, 30, run.Overlaps())
}

func TestRunsOfTheLockServiceHaveTheirOwnTable(t *testing.T) {
	ours, service := Run{File: "ours.json"}, Run{File: "service/two.json"}
	service.Replicas, service.Servers = 2, 3
	service.Numbers.Leases = check.Leases{Granted: 1031, Released: 1000, Expired: 20, Revoked: 5, ByOperator: 3, Left: 1, Renewals: 4007}
	service.Faults = map[string]verdict.FaultCount{"kill-replica": {Injected: 6}, "partition-callers": {Injected: 7}, "kill-server": {Injected: 8}}
	service.Untried = []string{"fault reap: never injected"}
	service.Promises = []verdict.Promise{{Rule: check.KeptLease, Tested: 28, By: "leases", Verdict: verdict.Valid}}
	page, err := Page(&Runs{Ours: []Run{ours}, Service: []Run{service}})
	require.NoError(t, err)
	for _, want := range []string{
		"| | [2 replicas, 3 servers](evidence/service/two.json) |", "| 1,031, 4,007 |", "| 1,000, 20, 5, 3 |", "ended in none of these ways** | **3** |",
		"| kill-replica 6, partition-callers 7 |", "| tests of *kept-lease* | 28 |", check.KeptLease.Meaning(),
		"- With 2 replicas on 3 servers: fault reap: never injected.",
	} {
		require.Contains(t, page, want)
	}
	page, err = Page(&Runs{Ours: []Run{ours}})
	require.NoError(t, err)
	require.NotContains(t, page, "lock service")
}

func TestForeignDocumentsAreRejected(t *testing.T) {
	for document, why := range map[string]string{
		`{"schema": "lockkeeper-torture/0"}`:                                             `schema "lockkeeper-torture/0"`,
		`{"schema": "lockkeeper-torture/1", "contender": "a rival", "tells": "a timer"}`: "is about a rival",
		`{"schema": "lockkeeper-torture/1", "mutant": "x"}`:                              "deliberately broken: x",
		`{`: "unexpected end of JSON input",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(document), 0o600))
		_, err := Read(dir)
		require.ErrorContains(t, err, why)
	}
	_, err := Read(t.TempDir())
	require.ErrorContains(t, err, "no document of a long run")
}

func TestPageWithoutARunOfThisLibraryIsAnError(t *testing.T) {
	_, err := Page(&Runs{})
	require.Error(t, err)
}
