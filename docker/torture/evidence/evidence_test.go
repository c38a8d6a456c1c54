// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker/torture"
	"github.com/lockkeeper/lockkeeper/internal/simulation/check"
)

const docs = "../../../docs"

func TestEvidencePageIsThatOfItsDocuments(t *testing.T) {
	runs, err := Read(filepath.Join(docs, "evidence"))
	require.NoError(t, err)
	page, err := Page(runs)
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(docs, "evidence.md"))
	require.NoError(t, err)
	require.Equal(t, string(written), page, "`make evidence` makes it anew")
}

// The README's central claim has the number of times that it was put to the test.
func TestREADMESaysHowManyLateWritesThereWere(t *testing.T) {
	runs, err := Read(filepath.Join(docs, "evidence"))
	require.NoError(t, err)
	stale := 0
	for _, r := range runs {
		if r.Token == ownToken {
			stale += r.Writes.Stale
		}
	}
	readme, err := os.ReadFile(filepath.Join(docs, "..", "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), " "+count(stale)+" late writes of processes")
}

func TestNumbersOfTheDocumentsAreOnThePage(t *testing.T) {
	var ours, other torture.Result
	ours.Token, ours.Numbers.Grants, ours.Numbers.Late, ours.Numbers.Left = ownToken, 1001001, 17, 23
	ours.Writes.Stale, ours.Writes.Let = 29, 31
	ours.Findings = []torture.Finding{{Rule: check.ToldFirst, Text: "somebody was told late"}}
	ours.Faults = map[string]torture.FaultCount{"kill-server": {Injected: 37}}
	other.Contender, other.Token, other.Numbers.Outlived = "a rival", "none", 41
	other.Without = map[string]string{"reap": "it has no parents"}
	page, err := Page([]Run{{ours, "ours.json"}, {other, "other.json"}})
	require.NoError(t, err)
	for _, want := range []string{
		"1 001 001 grants", "after another held: **17**", "Nodes left behind: **23**", "| stale writes that reached the registers | 29 |",
		"let **31** in", "**1 findings", "told-first: somebody was told late", "| kill-server | " + torture.Says("kill-server") + " | 37 |",
		"a rival", "| told late, while scheduled | 41 |", "reap: it has no parents",
	} {
		require.Contains(t, page, want)
	}
}

func TestDocumentsOfAnotherSchemaAreRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old.json"), []byte(`{"schema": "lockkeeper-torture/0"}`), 0o600))
	_, err := Read(dir)
	require.ErrorContains(t, err, `schema "lockkeeper-torture/0"`)
}

func TestPageWithoutARunOfThisLibraryIsAnError(t *testing.T) {
	_, err := Page(nil)
	require.Error(t, err)
}
