// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// folder returns a folder with the given files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func document(found string) string {
	return fmt.Sprintf("{%q:%q,%q:%q}", "schema", verdict.Schema, "verdict", found)
}

func TestOnlyFilesOfAnEarlierRunAreRemovedFromAFolder(t *testing.T) {
	const plan = "at 1s for 2s kill-server 1\n"
	for _, left := range []map[string]string{
		{},
		{"plan.txt": plan},
		{"plan.txt": plan, "history.jsonl": "", "history.jsonl.new": "", "servers/1/log.1": ""},
		{"plan.txt": plan, "history.jsonl": "", "summary.txt": "", "result.json": document("valid"), "servers/1/log.1": ""},
		{"plan.txt": plan, "result.json": document("unknown")},
	} {
		dir := folder(t, left)
		require.NoError(t, prepare(dir))
		requireEmpty(t, dir)
	}
	made := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, prepare(made))
	requireEmpty(t, made)

	for says, kept := range map[string]map[string]string{
		"it contains notes.txt, which no torture run wrote":           {"plan.txt": plan, "notes.txt": ""},
		"contains no plan of a torture run":                           {"servers/important": ""},
		`unknown fault "buy"`:                                         {"plan.txt": "at 9h for 1h buy bread\n", "summary.txt": ""},
		`it contains the evidence of a run with the verdict "broken"`: {"plan.txt": plan, "result.json": document("broken")},
		"it contains a result that cannot be read":                    {"plan.txt": plan, "result.json": "{"},
		`a document of schema "other", want "` + verdict.Schema:       {"plan.txt": plan, "result.json": `{"schema":"other"}`},
	} {
		dir := folder(t, kept)
		require.ErrorContains(t, prepare(dir), says)
		require.ErrorContains(t, prepare(dir), dir)
		var problems bytes.Buffer
		require.Equal(t, notRun, run([]string{"-out", dir}, io.Discard, &problems), "before anything is started")
		require.Contains(t, problems.String(), says)
		for name, content := range kept {
			still, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, content, string(still))
		}
	}
}

func TestKeptHistoryIsJudgedAgain(t *testing.T) {
	file, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "histories", "good", "torture.jsonl"))
	require.NoError(t, err)
	const mark = "what a checker of long ago has found"
	dir := folder(t, map[string]string{
		"history.jsonl": string(file),
		"result.json": fmt.Sprintf(`{"schema":%q,"verdict":"broken","zookeeper":"3.8.0","token":"czxid","again":"make torture SEED=7",
			"writes":{"all":3},"findings":[{"rule":"notified-first","text":%q}],"amiss":[]}`, verdict.Schema, mark),
	})
	var out, problems bytes.Buffer
	require.Equal(t, unknown, run([]string{"-judge", dir}, &out, &problems), "%s", &problems)
	require.Contains(t, out.String(), "living-node                unknown, tested 0 times")
	require.Contains(t, out.String(), "some promises were never tested")
	require.NotContains(t, out.String(), mark)
	summary, err := os.ReadFile(filepath.Join(dir, "summary.txt"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out.String(), string(summary)))
	result, err := readResult(dir)
	require.NoError(t, err)
	require.Equal(t, verdict.Unknown, result.Verdict)
	require.Equal(t, "make torture SEED=7", result.Again)
	require.NotEmpty(t, result.Judged)
	require.Positive(t, result.Numbers.Grants)
	require.Equal(t, 3, result.Writes.All, "what is not in the history is kept")

	// Problems recorded during the run stay.
	result.Problems = []string{"c1.1 ended by itself"}
	require.NoError(t, write(dir, "result.json", result.WriteJSON))
	out.Reset()
	require.Equal(t, broken, run([]string{"-judge", dir}, &out, &problems))
	require.Contains(t, out.String(), "PROBLEM c1.1 ended by itself")
	require.Contains(t, out.String(), "make torture SEED=7")

	// A history that cannot be read leaves the result as it is.
	before, err := os.ReadFile(filepath.Join(dir, "result.json"))
	require.NoError(t, err)
	for _, wrong := range []struct{ history, want string }{
		{"{\n", "history: line 1: "},
		{`{"at":"1s","kind":"danced"}`, `unknown kind "danced"`},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "history.jsonl"), []byte(wrong.history), 0o600))
		problems.Reset()
		require.Equal(t, notRun, run([]string{"-judge", dir}, io.Discard, &problems))
		require.Contains(t, problems.String(), "judging "+dir+" again: ")
		require.Contains(t, problems.String(), wrong.want)
	}
	after, err := os.ReadFile(filepath.Join(dir, "result.json"))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.NoError(t, os.Remove(filepath.Join(dir, "history.jsonl")))
	problems.Reset()
	require.Equal(t, notRun, run([]string{"-judge", dir}, io.Discard, &problems))
	require.Contains(t, problems.String(), "history.jsonl: no such file")
}

func TestFailedWriteKeepsTheOldFile(t *testing.T) {
	dir := folder(t, map[string]string{"result.json": "old"})
	full := errors.New("no space left on device")
	require.ErrorIs(t, write(dir, "result.json", func(w io.Writer) error {
		_, err := io.WriteString(w, "ne")
		return errors.Join(err, full)
	}), full)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	content, err := os.ReadFile(filepath.Join(dir, "result.json"))
	require.NoError(t, err)
	require.Equal(t, "old", string(content))
}
