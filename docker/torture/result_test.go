// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/simulation/check"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// good is a run of which nothing bad can be said.
func good(t *testing.T) *Result {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "testdata", "histories", "good", "torture.jsonl"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	events, err := history.Read(file)
	require.NoError(t, err)
	return &Result{
		Token: "czxid", ZooKeeper: "3.8.0", History: events, Findings: []Finding{}, Amiss: []string{},
		Faults: map[string]FaultCount{"kill-server": {Injected: 1}}, Writes: Writes{All: 100, Stale: 2, Refused: 2, Accepted: 2, Holders: 1},
	}
}

func TestVerdictFallsWithEachThingThatIsAmiss(t *testing.T) {
	r := good(t)
	Rejudge(r)
	require.Empty(t, r.Findings)
	require.Empty(t, r.Amiss)
	require.Equal(t, "held up", r.Verdict)
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
		spoil func(r *Result)
		says  string
	}{
		"a stale write that a fenced register took":      {func(r *Result) { r.Writes.Let = 1 }, "let 1 stale writes in"},
		"a write that was refused without being stale":   {func(r *Result) { r.Writes.Wronged = 1 }, "refused 1 others"},
		"an error that nobody should get":                {func(r *Result) { failed(r, "zk: node has children") }, "zk: node has children"},
		"a timeout where none was asked for":             {func(r *Result) { timeOutOfItself(r) }, "context deadline exceeded"},
		"a kind of fault that was never done":            {func(r *Result) { r.Faults["slow"] = FaultCount{Missed: 3} }, "slow was never done"},
		"what was amiss while it ran, and stays so":      {func(r *Result) { r.Amiss = []string{"c1 ended: exit status 2"} }, "c1 ended"},
		"nothing granted":                                {func(r *Result) { r.History = r.History[:1] }, "nothing was granted"},
		"a stale write in the history that was accepted": {func(r *Result) { takeStale(r) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := good(t)
			c.spoil(r)
			Rejudge(r)
			require.Equal(t, "broken", r.Verdict)
			if c.says == "" {
				require.NotEmpty(t, r.Findings)
				return
			}
			require.Len(t, r.Amiss, 1)
			require.Contains(t, r.Amiss[0], c.says)
			amiss := r.Amiss
			Rejudge(r)
			require.Equal(t, amiss, r.Amiss, "judged twice, it says the same")
		})
	}
}

func timeOutOfItself(r *Result) {
	for i := range r.History {
		if r.History[i].Kind == history.Failed {
			for j := range r.History {
				if r.History[j].Kind == history.Asked && r.History[j].Attempt == r.History[i].Attempt {
					r.History[j].Text = "lock"
				}
			}
			r.History[i].Error = timedOut
			return
		}
	}
}

func takeStale(r *Result) {
	for i := range r.History {
		if e := &r.History[i]; e.Kind == history.Wrote && !e.Accepted {
			e.Accepted = true
			return
		}
	}
}

func TestRivalIsNotAskedForWhatOnlyThisLibraryPromises(t *testing.T) {
	r := good(t)
	r.Tells, r.ZooKeeper, r.Token = "a timer", "", noToken
	Rejudge(r)
	var left []check.Rule
	for _, u := range r.Unchecked {
		left = append(left, u.Rule)
		require.NotEmpty(t, u.Why)
	}
	require.ElementsMatch(t, check.Rules, left)
	require.Equal(t, "held up", r.Verdict, "it is still asked whether somebody believed on: %v", r.Findings)
}
