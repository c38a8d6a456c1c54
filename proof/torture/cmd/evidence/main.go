// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Evidence writes docs/evidence.md, from the documents of the runs in docs/evidence: see package evidence.
//
//	evidence DOCS
//
// To add a run, copy the result.json of its folder there, under a descriptive name: a run that is compared with others into
// compared or, if it had few kinds of faults, into aimed. A test requires that a commit has the product that ran. Remove the
// names of folders (-plan, -out) from its command: the seed generates the same plan.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/proof/torture/evidence"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("evidence: want one argument, the folder of the documentation, and got %d", len(args))
	}
	runs, err := evidence.Read(filepath.Join(args[0], "evidence"))
	if err != nil {
		return err
	}
	if err := runs.Locate(args[0]); err != nil {
		return err
	}
	page, err := evidence.Page(runs)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(args[0], "evidence.md"), []byte(page), 0o644)
}
