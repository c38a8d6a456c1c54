// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

const docs = "../../../docs"

func TestEvidencePageMatchesItsDocuments(t *testing.T) {
	runs, err := Read(filepath.Join(docs, "evidence"))
	require.NoError(t, err)
	page, err := Page(runs)
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(docs, "evidence.md"))
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
		fmt.Sprintf(" the nodes of the other %d holders", runs.Writers()-runs.Stopped()),
	} {
		require.True(t, strings.Contains(strings.Join(strings.Fields(string(proof)), " "), want), "docs/proof.md does not say %q", want)
	}
	require.Zero(t, runs.AcceptedByFenced(), "docs/proof.md says that the registers that check the token accepted none")
}

func TestNumbersOfTheDocumentsAreOnThePage(t *testing.T) {
	var ours, other verdict.Result
	ours.Numbers.Grants, ours.Numbers.StaleBeliefs, ours.Numbers.NodesLeft = 1001001, 17, 23
	ours.Writes.Stale, ours.Writes.AcceptedByFenced, ours.Writes.Writers = 29, 31, 43
	ours.Numbers.StaleWriters = map[check.Reason]int{check.Paused: 40, check.ByOperator: 3}
	ours.Findings = []verdict.Finding{{Rule: check.FirstInQueue, Text: "a predecessor was queued"}}
	ours.Faults = map[string]verdict.FaultCount{"kill-server": {Injected: 37, Missed: 2}}
	other.Contender, other.Token, other.NotifiedBy, other.Limits = "a rival", "none", "a timer", "One server"
	other.Numbers.StaleBeliefs, other.Numbers.Ends = 41, map[history.Cause]int{history.Deadline: 47, history.GivenUp: 1000}
	other.Without = map[string]string{"reap": "it has no parents", "counter": "it has no parents"}
	other.Unchecked = []verdict.Unchecked{{Rule: check.OwnNode, Why: "no nodes"}}
	recorded := ours
	recorded.Servers, recorded.Numbers.Partitioned, recorded.Waiters, recorded.Holds = 5, 61, 1500, 200
	recorded.Recipes = map[string]int{"permits": 1234, "lock": 5}
	recorded.Promises = []verdict.Promise{
		{Rule: check.NotifiedFirst, Tested: 1067, By: "running holders", Verdict: verdict.HeldUp},
		{Rule: check.LivingNode, By: "waiters", Verdict: verdict.NotShown},
		{Rule: check.FencedRegister, Tested: 71, By: "stale writers", Verdict: verdict.Broken},
	}
	page, err := Page(&Runs{Ours: []Run{{ours, "ours.json"}, {recorded, "recorded.json"}}})
	require.NoError(t, err)
	for _, want := range []string{
		"| holders that were partitioned, and lost the lock to another client | not recorded | 61 |",
		"| additional contenders and held locks, in each process | none | 1 500 on each path, 200 |",
		"| how often each recipe was granted or run | not recorded | lock 5, permits 1 234 |",
		"| running holders | not recorded | 1 067, held up |", "| waiters | not recorded | not shown |", "| stale writers | not recorded | 71, broken |",
	} {
		require.Contains(t, page, want)
	}
	page, err = Page(&Runs{
		Ours: []Run{{ours, "ours.json"}}, Compared: []Run{{ours, "compared/ours.json"}, {other, "compared/other.json"}},
		Aimed: []Run{{other, "aimed/other.json"}},
	})
	require.NoError(t, err)
	for _, want := range []string{
		"are older than this count and did not record it", "1 001 001 grants", "in ZooKeeper's commit order: **1**", "granted to another client: **17**", "Nodes left behind: **23**",
		"| stale writes that reached the registers | 29 |", "from 43 holders:\n**40** had been stopped", ", 3 had lost their node", "accepted **31**",
		"**1 findings", "first-in-line: a predecessor was queued", "| kill-server | " + torture.Describe("kill-server") + " | 37 |", "| faults not injected | 2 |",
		"| notified late, while scheduled | 17 | 41 |", "| notified late, while scheduled | 41 |", "| holders that lost their lock and survived | 0 | 47 |",
		"notified by a timer. One server.", "counter, reap: it has no parents.", "Not checked: own-node: no nodes.",
	} {
		require.Contains(t, page, want)
	}
}

func TestRunsOfTheLockServiceHaveTheirOwnTable(t *testing.T) {
	ours, service := Run{File: "ours.json"}, Run{File: "service/two.json"}
	service.Replicas, service.Servers = 2, 3
	service.Numbers.Leases = check.Leases{Granted: 1031, Released: 1000, Expired: 20, Revoked: 5, ByOperator: 3, Left: 1, Renewals: 4007}
	service.Faults = map[string]verdict.FaultCount{"kill-replica": {Injected: 6}, "cut-callers": {Injected: 7}, "kill-server": {Injected: 8}}
	service.Untried = []string{"fault reap: never injected"}
	service.Promises = []verdict.Promise{{Rule: check.KeptLease, Tested: 28, By: "leases", Verdict: verdict.HeldUp}}
	page, err := Page(&Runs{Ours: []Run{ours}, Service: []Run{service}})
	require.NoError(t, err)
	for _, want := range []string{
		"| | 2 replicas, 3 servers |", "| 1 031, 4 007 |", "| 1 000, 20, 5, 3 |", "ended in none of these ways** | **3** |",
		"| cut-callers 7, kill-replica 6 |", "| kept-lease | leases | 28, held up |", check.KeptLease.Meaning(),
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
