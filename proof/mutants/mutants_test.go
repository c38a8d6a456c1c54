// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// simulation is what has to find out. It runs without the race detector, for speed.
const simulation = "./proof/simulation"

// withoutInlining saves a quarter of the time in which a mutant is built: each needs the simulation compiled again.
const withoutInlining = "-gcflags=github.com/lockkeeper/lockkeeper/proof/simulation=-l"

// repeats is how long the test that found a mutant the last time is run again. On a busy machine, one misses its mutant in two
// runs of five, of less than a second each.
const repeats = 30 * time.Second

var every = flag.Int("mutants.every", 1, "run one mutant of this many, from a random one on")

func TestASimulationFindsEachRuleThatIsBroken(t *testing.T) {
	patches, err := filepath.Glob("testdata/*.patch")
	require.NoError(t, err)
	require.Len(t, patches, 83, "one for each rule that the promises stand on")
	first := rand.IntN(max(1, *every))
	patches = slices.DeleteFunc(patches, func(patch string) bool {
		return (slices.Index(patches, patch)-first)%max(1, *every) != 0
	})
	unbroken := filepath.Join(t.TempDir(), "unbroken.test")
	run(t, ".", "go", "test", "-c", "-ldflags=-s", "-o", unbroken, simulation)
	if *every == 1 {
		t.Run("control", func(t *testing.T) { requireUnbrokenPasses(t, unbroken, patches) })
	}
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "simulation.test")
			run(t, ".", "go", "test", "-c", "-ldflags=-s", withoutInlining, "-o", binary, "-overlay", overlay(t, patch), simulation)

			began := time.Now()
			foundBy := func(tests string) bool {
				out, found := finds(t, binary, tests)
				if found {
					t.Logf("found after %v by %s: %s", time.Since(began).Round(100*time.Millisecond), finder(out), finding(out))
					requireUnbrokenPassesRun(t, unbroken, out)
				}
				return found
			}
			// What found it the last time. A test that depends on the order of goroutines finds it in some of its runs only: it
			// runs again, unless it takes long.
			for last := lastFoundBy(t, patch); ; {
				if foundBy(last) {
					return
				}
				if time.Since(began) > repeats {
					break
				}
			}
			// Then everything, the quicker one first. Neither of these knows the other's plans.
			if foundBy("AtNoInstant") || foundBy("NoPlan") {
				return
			}
			require.Fail(t, "the simulation found nothing")
		})
	}
}

// requireUnbrokenPasses is the control of all mutants: the tests that found them find nothing in the library as it is.
func requireUnbrokenPasses(t *testing.T, binary string, patches []string) {
	t.Helper()
	var tests []string
	for _, patch := range patches {
		tests = append(tests, lastFoundBy(t, patch))
	}
	slices.Sort(tests)
	out, found := finds(t, binary, strings.Join(slices.Compact(tests), "|"))
	require.False(t, found, "it finds something without a mutant, so that no finding of one counts:\n%s", out)
	require.NotContains(t, string(out), "no tests to run")
}

// requireUnbrokenPassesRun is the control of one mutant: the run that it failed, of which out is the output, passes in the library as
// it is. A test that has no flags for one of its runs runs a sample.
func requireUnbrokenPassesRun(t *testing.T, binary string, out []byte) {
	t.Helper()
	tests, flags := repeating(t, out)
	out, found := finds(t, binary, tests, append([]string{"-sim.every=800", "-sim.repeat=5"}, flags...)...)
	require.False(t, found, "this run fails without the mutant, so that the finding does not count:\n%s", out)
	require.NotContains(t, string(out), "no tests to run")
}

// repeating returns the test and the flags that repeat the finding, as the simulation prints them. For a crash it prints none: the
// whole test is repeated, with fewer plans.
func repeating(t *testing.T, out []byte) (tests string, flags []string) {
	t.Helper()
	_, rest, found := strings.Cut(string(out), "repeat: go test "+simulation+" ")
	if !found {
		return only(finder(out)), []string{"-sim.seeds=60"}
	}
	rest, _, _ = strings.Cut(rest, "\n")
	for rest != "" {
		var name, value string
		name, rest, _ = strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			value, err = strconv.Unquote(quoted)
			require.NoError(t, err)
			rest = strings.TrimPrefix(rest[len(quoted):], " ")
		} else {
			value, rest, _ = strings.Cut(rest, " ")
		}
		if name == "-run" {
			tests = only(value)
		} else {
			flags = append(flags, name+"="+value)
		}
	}
	return tests, flags
}

// statusWatchdog is the status of a simulation that its watchdog ended.
const statusWatchdog = 3

// finds runs some of the simulation's tests, and says whether they found something.
func finds(t *testing.T, binary, tests string, flags ...string) (out []byte, found bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 16*time.Minute)
	defer cancel()
	flags = append([]string{"-test.run=" + tests, "-test.timeout=15m", "-sim.mutant", "-sim.seeds=3000"}, flags...)
	cmd := exec.CommandContext(ctx, binary, flags...)
	cmd.Dir = filepath.Join(root, simulation)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return out, false
	}
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	require.NotEqual(t, statusWatchdog, failed.ExitCode(), "the watchdog ended it, which is no finding:\n%s", tail(out))
	require.Contains(t, string(out), "--- FAIL", "it failed otherwise than by finding something:\n%s", tail(out))
	return out, true
}

func TestAPatchThatDoesNotApplyAnyMoreIsReported(t *testing.T) {
	stale := filepath.Join(t.TempDir(), "stale.patch")
	require.NoError(t, os.WriteFile(stale, []byte(`--- a/internal/queue/wait.go
+++ b/internal/queue/wait.go
@@ -1,3 +1,3 @@
 // SPDX-License-Identifier: Apache-2.0
 
-package somethingelse
+package queue
`), 0o600))
	_, err := Patched(root, t.TempDir(), stale)
	require.ErrorContains(t, err, "does not apply")
}

// overlay is the file that has the go command see the patched files in the place of
// the real ones.
func overlay(t *testing.T, patch string) string {
	t.Helper()
	dir := t.TempDir()
	replace, err := Patched(root, dir, patch)
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	name := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = filepath.Join(root, dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %q:\n%s", name, args, out)
}

// lastFoundBy is the test that the patch names in its line "Found by:". A patch that names
// another than finds it is no failure: the test takes longer, and logs the name.
func lastFoundBy(t *testing.T, patch string) string {
	t.Helper()
	text, err := os.ReadFile(patch)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "Found by: "); found {
			return only(strings.TrimSpace(name))
		}
	}
	require.Fail(t, "the patch has no line that begins with \"Found by: \" and names a test of the simulation")
	return ""
}

// only returns the pattern that selects the test of this name.
func only(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// finder is the test of the simulation that failed, without the parts of it that were not selected.
func finder(out []byte) (name string) {
	for line := range strings.Lines(string(out)) {
		if _, text, found := strings.Cut(line, "--- FAIL: "); found {
			name, _, _ = strings.Cut(text, " (")
		}
	}
	return name
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
