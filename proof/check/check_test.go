// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

const kept = "../../testdata/histories"

// read returns the kept histories of one folder by name.
func read(t *testing.T, folder string) map[string][]history.Event {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(kept, folder, "*.jsonl"))
	require.NoError(t, err)
	histories := map[string][]history.Event{}
	for _, name := range names {
		file, err := os.Open(name)
		require.NoError(t, err)
		events, err := history.Read(file)
		require.NoError(t, err, name)
		require.NoError(t, file.Close())
		histories[strings.TrimSuffix(filepath.Base(name), ".jsonl")] = events
	}
	return histories
}

func TestGoodHistoryPasses(t *testing.T) {
	good := read(t, "good")
	require.NotEmpty(t, good)
	for name, events := range good {
		t.Run(name, func(t *testing.T) {
			for _, f := range check.History(events) {
				t.Error(f)
			}
		})
	}
}

func TestBadHistoryIsRejectedByRulesThatItBreaks(t *testing.T) {
	broken := map[check.Rule]bool{}
	bad := read(t, "bad")
	for name, events := range bad {
		t.Run(name, func(t *testing.T) {
			var breaks []string
			for _, e := range events {
				breaks = append(breaks, e.Breaks...)
			}
			require.NotEmpty(t, breaks, "a bad history lists the rules that it breaks")
			var found []string
			findings := check.History(events)
			for _, rule := range check.Broken(findings) {
				found = append(found, string(rule))
				broken[rule] = true
			}
			require.ElementsMatch(t, breaks, found, "%v", findings)
		})
	}
	for _, rule := range check.Rules() {
		require.True(t, broken[rule], "no bad history breaks %s", rule)
	}
}

func TestFindingNamesLinesThatBreakTheRule(t *testing.T) {
	findings := check.History(read(t, "bad")["overtaking"])
	require.NotEmpty(t, findings)
	require.Equal(t, check.FirstInQueue, findings[0].Rule)
	require.Contains(t, findings[0].String(), "first-in-queue: granted while another contender was ahead in the queue\n    line 1")
}

func TestEventsThatDoNotFitTogetherAreReported(t *testing.T) {
	run := history.Event{Kind: history.Run, Timeout: 4e9, Tick: 5e8, Line: 1}
	event := func(kind history.Kind) history.Event {
		return history.Event{Kind: kind, Contender: "a", Attempt: 1, Path: "/l"}
	}
	stranger := event(history.Granted)
	stranger.Contender = "b"
	for name, events := range map[string][]history.Event{
		"empty":                          nil,
		"no run":                         {event(history.Asked)},
		"two runs":                       {run, run},
		"an answer without a request":    {run, event(history.Granted)},
		"asked twice":                    {run, event(history.Asked), event(history.Asked)},
		"notified before it was granted": {run, event(history.Asked), event(history.Notified)},
		"another contender's":            {run, event(history.Asked), stranger},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []check.Rule{check.WellFormed}, check.Broken(check.History(events)))
		})
	}
}
