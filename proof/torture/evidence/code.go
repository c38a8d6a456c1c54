// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// ErrNoHistory is the error of Locate in a checkout that has no history, or only a part: an export or a shallow clone.
var ErrNoHistory = errors.New("this checkout has no complete history in which to find the code of the runs")

// Locate sets the Code of each run: how many commits ago the folders of the product were last as in the run, in the history
// of the checkout at dir. It returns an error that names each document whose code no commit has.
func (r *Runs) Locate(dir string) error {
	git := func(input string, args ...string) ([]string, error) {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.Output()
		return strings.Split(strings.TrimSpace(string(out)), "\n"), err
	}
	if shallow, err := git("", "rev-parse", "--is-shallow-repository"); err != nil || shallow[0] != "false" {
		return ErrNoHistory
	}
	commits, err := git("", "rev-list", "--topo-order", "HEAD")
	if err != nil {
		return fmt.Errorf("evidence: git rev-list: %w", err)
	}
	folders := map[string]bool{}
	r.each(func(run *Run) {
		for folder := range run.Trees {
			folders[folder] = true
		}
	})
	names := slices.Sorted(maps.Keys(folders))
	var objects strings.Builder
	for _, commit := range commits {
		for _, name := range names {
			fmt.Fprintf(&objects, "%s:%s\n", commit, name)
		}
	}
	found, err := git(objects.String(), "cat-file", "--batch-check=%(objectname)") // a line each, also for what is missing
	if err != nil {
		return fmt.Errorf("evidence: git cat-file: %w", err)
	}
	has := func(run *Run, i int) bool {
		for j, name := range names {
			if tree := run.Trees[name]; tree != "" && !strings.HasPrefix(found[i*len(names)+j], tree) {
				return false
			}
		}
		return len(run.Trees) > 0
	}
	var lost []error
	r.each(func(run *Run) {
		for i := range commits {
			if has(run, i) {
				run.Code = fmt.Sprintf("%d commits ago", i)
				if i == 1 {
					run.Code = "1 commit ago"
				}
				return
			}
		}
		lost = append(lost, fmt.Errorf("evidence: %s: no commit of the history has the folders of the product that it was made with: repeat the run from a commit that stays", run.File))
	})
	return errors.Join(lost...)
}

// each calls f with each run.
func (r *Runs) each(f func(*Run)) {
	for _, runs := range [][]Run{r.Ours, r.Service, r.Compared, r.Aimed, r.codes} {
		for i := range runs {
			f(&runs[i])
		}
	}
}
