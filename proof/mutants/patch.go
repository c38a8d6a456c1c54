// SPDX-License-Identifier: Apache-2.0

// Package mutants breaks the recipes on purpose, one rule of the protocol at a time: each patch in testdata is a mutant,
// which its test has the simulation find. A patch that does not apply any more fails the test: the rule that it breaks has
// moved, and so must it.
package mutants

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Patched copies the files that a patch changes from the module in root into dir, and changes them there. It returns them by
// the files that they replace, as `go build -overlay` takes them. A patch that does not apply is an error.
func Patched(root, dir, patch string) (map[string]string, error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return nil, fmt.Errorf("mutant: %w", err)
	}
	replace := map[string]string{}
	for line := range strings.Lines(string(text)) {
		file, found := strings.CutPrefix(strings.TrimSpace(line), "+++ b/")
		if !found {
			continue
		}
		original, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return nil, fmt.Errorf("mutant %s: %w", patch, err)
		}
		source, err := os.ReadFile(original)
		if err != nil {
			return nil, fmt.Errorf("mutant %s: %w", patch, err)
		}
		to := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, source, 0o600)); err != nil {
			return nil, fmt.Errorf("mutant %s: %w", patch, err)
		}
		replace[original] = to
	}
	absolute, err := filepath.Abs(patch)
	if err != nil {
		return nil, fmt.Errorf("mutant %s: %w", patch, err)
	}
	cmd := exec.Command("git", "apply", "--unidiff-zero", "--whitespace=nowarn", absolute)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // no repository
	out, err := cmd.CombinedOutput()
	if err == nil && len(replace) == 0 {
		err = errors.New("it changes no file")
	}
	if err != nil {
		return nil, fmt.Errorf("mutant %s: the patch does not apply: %w: %s", patch, err, out)
	}
	return replace, nil
}
