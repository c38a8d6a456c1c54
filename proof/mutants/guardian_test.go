// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The rules of the guardian concern processes and descriptors, which no simulation has: each patch names a package and the test
// that finds it.
func TestChildProcessesFindEachRuleOfTheGuardianThatIsBroken(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has guardians")
	}
	patches, err := filepath.Glob("testdata/guardian/*.patch")
	require.NoError(t, err)
	require.Len(t, patches, 8)
	if *every > 1 {
		patches = patches[rand.IntN(len(patches)):][:1]
	}
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
			text, err := os.ReadFile(patch)
			require.NoError(t, err)
			_, found, _ := strings.Cut(string(text), "\nFound by: ")
			line, _, _ := strings.Cut(found, "\n")
			pkg, name, named := strings.Cut(line, " ")
			require.True(t, named, "the patch names no package and test")
			test := func(flags ...string) (out []byte, err error) {
				binary := filepath.Join(t.TempDir(), "guardian.test")
				run(t, ".", "go", append(append([]string{"test", "-c", "-ldflags=-s", "-o", binary}, flags...), pkg)...)
				for began := time.Now(); ; { // a guardian that acts too early may do so too late for the test
					cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+name+"$", "-test.timeout=2m")
					cmd.Dir = filepath.Join(root, pkg)
					if out, err = cmd.CombinedOutput(); err != nil || flags == nil || time.Since(began) > repeats {
						return out, err
					}
				}
			}
			out, err := test()
			require.NoError(t, err, "it fails without the mutant:\n%s", out)
			require.NotContains(t, string(out), "no tests to run")
			out, err = test("-overlay", overlay(t, patch))
			require.ErrorAs(t, err, new(*exec.ExitError), "%s finds nothing", name)
			require.Contains(t, string(out), "--- FAIL: "+name, "it failed otherwise than by finding something:\n%s", tail(out))
		})
	}
}
