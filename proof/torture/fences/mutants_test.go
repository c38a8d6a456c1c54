// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/mutants"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// Each patch breaks one rule of a guard. The test that it names runs in a binary that is built with the patch.
func TestGuardWithBrokenRuleFailsItsTest(t *testing.T) {
	stores.Redis(t, nil) // without the store, the tests of a mutant would be skipped, not passed
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
			text, err := os.ReadFile(patch)
			require.NoError(t, err)
			_, after, found := strings.Cut(string(text), "\nFound by: ")
			require.True(t, found, "the patch names no test")
			test, _, _ := strings.Cut(after, "\n")

			dir := t.TempDir()
			replace, err := mutants.Patched("../../..", dir, patch)
			require.NoError(t, err)
			overlay, err := json.Marshal(map[string]any{"Replace": replace})
			require.NoError(t, err)
			name := filepath.Join(dir, "overlay.json")
			require.NoError(t, os.WriteFile(name, overlay, 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-ldflags=-s", "-overlay", name, "-run", "^"+test+"$", ".").CombinedOutput()
			require.Error(t, err, "the test passes: %s", out)
			require.Contains(t, string(out), "--- FAIL: "+test, "%s", out)
		})
	}
}
