// SPDX-License-Identifier: Apache-2.0

// Package mutants holds no code: its test breaks the recipes on purpose, one rule of
// the protocol at a time, and has the simulation find out. A patch that does not apply
// any more fails the test: the rule that it breaks has moved, and so must it.
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// simulation is what has to find out. It runs without the race detector, for speed.
const simulation = "./internal/simulation"

func TestASimulationFindsEachRuleThatIsBroken(t *testing.T) {
	patches, err := filepath.Glob("testdata/*.patch")
	require.NoError(t, err)
	require.Len(t, patches, 11, "one for each rule that the promises stand on")
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "simulation.test")
			run(t, ".", "go", "test", "-c", "-o", binary, "-overlay", overlay(t, patch), simulation)

			began := time.Now()
			// The quicker one first. Neither knows of the other's plans.
			for _, tests := range []string{"AtNoInstant", "NoPlan"} {
				if out, found := finds(t, binary, tests); found {
					t.Logf("found after %v: %s", time.Since(began).Round(100*time.Millisecond), finding(out))
					return
				}
			}
			require.Fail(t, "the simulation found nothing")
		})
	}
}

// finds runs some of the simulation's tests, and says whether they found something.
func finds(t *testing.T, binary, tests string) (out []byte, found bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run="+tests, "-test.timeout=5m", "-sim.mutant", "-sim.seeds=3000")
	cmd.Dir = filepath.Join(root, simulation)
	out, err := cmd.CombinedOutput()
	if err == nil {
		require.NotContains(t, string(out), "no tests to run")
		return out, false
	}
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	require.Contains(t, string(out), "--- FAIL", "it failed otherwise than by finding something:\n%s", tail(out))
	return out, true
}

func TestAPatchThatDoesNotApplyAnyMoreIsReported(t *testing.T) {
	stale := filepath.Join(t.TempDir(), "stale.patch")
	require.NoError(t, os.WriteFile(stale, []byte(`--- a/recipes/wait.go
+++ b/recipes/wait.go
@@ -1,3 +1,3 @@
 // SPDX-License-Identifier: Apache-2.0
 
-package somethingelse
+package recipes
`), 0o600))
	_, err := patched(t.TempDir(), stale)
	require.ErrorContains(t, err, "does not apply")
}

// overlay is the file that has the go command see the patched files in the place of
// the real ones.
func overlay(t *testing.T, patch string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := patched(dir, patch)
	require.NoError(t, err)
	replace := make(map[string]string, len(files))
	for _, file := range files {
		real, err := filepath.Abs(filepath.Join(root, file))
		require.NoError(t, err)
		replace[real] = filepath.Join(dir, file)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	name := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// patched copies what a patch changes into dir, and changes it there.
func patched(dir, patch string) (files []string, err error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		file, found := strings.CutPrefix(strings.TrimSpace(line), "+++ b/")
		if !found {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		to := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, source, 0o600)); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	absolute, err := filepath.Abs(patch)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("git", "apply", "--unidiff-zero", "--whitespace=nowarn", absolute)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // no repository
	if out, err := cmd.CombinedOutput(); err != nil || len(files) == 0 {
		return nil, errors.Join(errors.New(patch+" does not apply any more: "+string(out)), err)
	}
	return files, nil
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = filepath.Join(root, dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %q:\n%s", name, args, out)
}

// finding is what the simulation says first: the run, and the promise that was broken.
func finding(out []byte) string {
	lines := strings.Split(string(out), "\n")
	for i, line := range lines[:len(lines)-1] {
		if _, text, found := strings.Cut(line, "_test.go:"); found {
			return text + ": " + strings.TrimSpace(lines[i+1])
		}
	}
	return string(tail(out))
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }
