// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

func TestInvalidFlagIsRejectedWithAllowedValues(t *testing.T) {
	for _, wrong := range []struct{ args, says string }{
		{"-rivals curator", `rival "curator": allowed are etcd, redlock, redsync, rowlock`},
		{"-rivals etcd,", `rival "": allowed are etcd`},
		{"-rivals etcd,redsync,etcd", `rival "etcd": named twice`},
		{"-duration abc", `invalid value "abc" for flag -duration`},
		{"-duration 1s", "duration 1s: allowed are 10s to 24h"},
		{"-faults flood", `fault "flood": allowed are cancel-waiters, counter, delete-node`},
		{"-timeout 2500ms", "timeout 2.5s: allowed are whole seconds"},
		{"-timeout 1h", "session timeout 1h0m0s: allowed are 2s to 40s"},
		{"-contenders 17", "17 contenders: allowed are 1 to 16"},
		{"now", `unexpected argument "now"`},
	} {
		var problems bytes.Buffer
		require.Equal(t, notRun, run(strings.Fields(wrong.args), io.Discard, &problems), wrong.args)
		require.Contains(t, problems.String(), wrong.says)
	}
}

func TestFolderOfNoRunIsRejected(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"data of a store":   {"member/wal": "1"},
		"a foreign plan":    {"plan.txt": "at 1s for 2s kill-server 1\n"},
		"an empty plan":     {"plan.txt": ""},
		"a plan elsewhere":  {"plans/plan.txt": planHead + " etcd, seed 1\n"},
		"a plan is in plan": {"plan.txt/plan.txt": planHead + " etcd, seed 1\n"},
	} {
		out := t.TempDir()
		for file, text := range files {
			path := filepath.Join(out, "etcd", file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		var problems bytes.Buffer
		require.Equal(t, notRun, run([]string{"-rivals", "setnx,etcd", "-out", out}, io.Discard, &problems), name)
		require.Contains(t, problems.String(), filepath.Join(out, "etcd"), name)
		for file := range files {
			require.FileExists(t, filepath.Join(out, "etcd", file), name)
		}
		require.NoDirExists(t, filepath.Join(out, "setnx"), "no run was begun")
	}
	out := t.TempDir()
	file := filepath.Join(out, "etcd")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.Error(t, removable(file), "it is not a folder")
	j, err := parse([]string{"-rivals", "etcd", "-out", out}, io.Discard)
	require.NoError(t, err)
	require.ErrorContains(t, j.rival(t.Context(), "etcd", "", io.Discard), file)
	require.FileExists(t, file)
}

func TestFolderOfAnEarlierRunMayBeRemoved(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, removable(dir), "it is empty")
	require.NoError(t, removable(filepath.Join(dir, "none")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "history.jsonl"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.txt"), []byte(planHead+" etcd, seed 1\nat 1s for 2s refuse 1\n"), 0o644))
	require.NoError(t, removable(dir))
}

func TestStatusReportsWhetherAnyRivalRan(t *testing.T) {
	left, failed := fmt.Errorf("etcd is %w", stores.ErrNotInstalled), errors.New("no room")
	for _, c := range []struct {
		errs   []error // of each run
		status int
	}{
		{[]error{nil, nil}, ran},
		{[]error{left, nil}, ran},
		{[]error{nil, left}, ran},
		{[]error{left, left}, notRun},
		{[]error{nil, failed}, notRun},
		{[]error{left, failed}, notRun},
	} {
		runs := slices.Clone(c.errs)
		status := each(t.Context(), []string{"etcd", "setnx"}, func(string) error {
			err := runs[0]
			runs = runs[1:]
			return err
		})
		require.Equal(t, c.status, status, c.errs)
	}
	for err, status := range map[error]int{context.Canceled: interrupted, &torture.LeftError{Err: failed}: notRun} {
		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, status, each(ctx, []string{"etcd", "setnx"}, func(string) error {
			cancel()
			return err
		}))
	}
}

func TestRunPrintsTheCommandThatRepeatsIt(t *testing.T) {
	j, err := parse(strings.Fields("-rivals etcd -duration 5m -seed 7 -faults partition-contender,pause-contender -clients 2 -out /a"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, "make torture-rivals RIVALS=etcd DURATION=5m0s SEED=7 FAULTS=partition-contender,pause-contender "+
		"TORTURE='-out /a-again -contenders 4 -clients 2 -timeout 4s'", j.again("etcd"))
}
