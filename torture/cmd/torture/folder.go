// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture"
)

// keep writes what a run came to, for machines and for people.
func writeHistory(dir string, result *torture.Result) error {
	return write(dir, historyFile, func(w io.Writer) error { return history.Write(w, result.History) })
}

func keep(dir string, result *torture.Result, out io.Writer) error {
	return errors.Join(write(dir, resultFile, result.WriteJSON), write(dir, summaryFile, result.WriteSummary), result.WriteSummary(out))
}

// kept reads the result of a run, with its history.
func kept(dir string) (*torture.Result, error) {
	result, err := readResult(dir)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(dir, historyFile))
	if err != nil {
		return nil, err
	}
	result.History, err = history.Read(file)
	return result, errors.Join(err, file.Close())
}

func readResult(dir string) (*torture.Result, error) {
	document, err := os.ReadFile(filepath.Join(dir, resultFile))
	if err != nil {
		return nil, err
	}
	var result torture.Result
	if err := json.Unmarshal(document, &result); err != nil {
		return nil, fmt.Errorf("%s: %w", resultFile, err)
	}
	if result.Schema != torture.Schema {
		return nil, fmt.Errorf("%s: a document of schema %q, want %q", resultFile, result.Schema, torture.Schema)
	}
	return &result, nil
}

// What there is in the folder of a run.
const (
	planFile    = "plan.txt" // the first that is there
	historyFile = "history.jsonl"
	resultFile  = "result.json"
	summaryFile = "summary.txt"
	logsFolder  = "servers"
	unfinished  = ".new" // behind the name of a file that is being written
)

// prepare makes the folder of a run, or takes away what an earlier run has left in it: a result that is older than the plan
// beside it would be taken for that of the new run if that never comes to one. Nothing else is taken away.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	names := []string{planFile, historyFile, resultFile, summaryFile, logsFolder}
	for _, e := range entries {
		if !slices.Contains(names, strings.TrimSuffix(e.Name(), unfinished)) {
			return fmt.Errorf("-out %s: it holds %s, which is no torture's: name another folder", dir, e.Name())
		}
	}
	if _, err := readPlan(filepath.Join(dir, planFile)); err != nil {
		return fmt.Errorf("-out %s: it is not empty, and it holds no plan of a torture: name another folder: %w", dir, err)
	}
	earlier, err := readResult(dir)
	switch {
	case errors.Is(err, os.ErrNotExist): // it came to none
	case err != nil:
		return fmt.Errorf("-out %s: it holds a result that cannot be read: name another folder: %w", dir, err)
	case earlier.Verdict != torture.HeldUp && earlier.Verdict != torture.NotShown:
		return fmt.Errorf("-out %s: it holds the evidence of a run that was %s: name another folder", dir, earlier.Verdict)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("-out %s: what an earlier run has left: %w", dir, err)
		}
	}
	return nil
}

func readPlan(name string) ([]torture.Fault, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	plan, err := torture.ReadPlan(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return plan, nil
}

// write writes a file, or leaves what there was: a document that is judged again is all that there is of a run.
func write(dir, name string, f func(io.Writer) error) (err error) {
	path := filepath.Join(dir, name)
	file, err := os.Create(path + unfinished)
	if err != nil {
		return err
	}
	if err := errors.Join(f(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path+unfinished))
	}
	return os.Rename(path+unfinished, path)
}
