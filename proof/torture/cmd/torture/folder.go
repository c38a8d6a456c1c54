// SPDX-License-Identifier: Apache-2.0

//go:build unix && !stepclock

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

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

func writeHistory(dir string, result *verdict.Result) error {
	return write(dir, historyFile, func(w io.Writer) error { return history.Write(w, result.History) })
}

// keep writes the result of a run, as JSON, as a summary, and as a picture of the longest window that porcupine has searched.
func keep(dir string, result *verdict.Result, out io.Writer) error {
	return errors.Join(
		write(dir, resultFile, result.WriteJSON), write(dir, summaryFile, result.WriteSummary), result.WriteSummary(out),
		write(dir, viewFile, result.WriteView),
	)
}

// kept reads the result of a run, with its history.
func kept(dir string) (*verdict.Result, error) {
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

func readResult(dir string) (*verdict.Result, error) {
	document, err := os.ReadFile(filepath.Join(dir, resultFile))
	if err != nil {
		return nil, err
	}
	var result verdict.Result
	if err := json.Unmarshal(document, &result); err != nil {
		return nil, fmt.Errorf("%s: %w", resultFile, err)
	}
	if result.Schema != verdict.Schema {
		return nil, fmt.Errorf("%s: a document of schema %q, want %q", resultFile, result.Schema, verdict.Schema)
	}
	return &result, nil
}

// Files in the folder of a run.
const (
	planFile    = "plan.txt" // written first
	historyFile = "history.jsonl"
	resultFile  = "result.json"
	summaryFile = "summary.txt"
	viewFile    = "linearizable.html" // porcupine's
	logsFolder  = "servers"
	unfinished  = ".new" // suffix of a file that is being written
)

// prepare creates the folder of a run, or removes the files of an earlier run from it: otherwise, if the new run ends without a
// result, the old result would be taken for its own. It removes nothing else.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	names := []string{planFile, historyFile, resultFile, summaryFile, viewFile, logsFolder}
	for _, e := range entries {
		if !slices.Contains(names, strings.TrimSuffix(e.Name(), unfinished)) {
			return fmt.Errorf("-out %s: it contains %s, which no torture run wrote: name another folder", dir, e.Name())
		}
	}
	if _, err := readPlan(filepath.Join(dir, planFile)); err != nil {
		return fmt.Errorf("-out %s: it is not empty, and contains no plan of a torture run: name another folder: %w", dir, err)
	}
	earlier, err := readResult(dir)
	switch {
	case errors.Is(err, os.ErrNotExist): // the run has no result
	case err != nil:
		return fmt.Errorf("-out %s: it contains a result that cannot be read: name another folder: %w", dir, err)
	case earlier.Verdict != verdict.Valid && earlier.Verdict != verdict.Unknown:
		return fmt.Errorf("-out %s: it contains the evidence of a run with the verdict %q: name another folder", dir, earlier.Verdict)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("-out %s: remove the files of an earlier run: %w", dir, err)
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

// write writes a file, or on failure leaves the old one: a result that is judged again is the only record of a run.
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
