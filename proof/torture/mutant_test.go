// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/mutants"
)

func TestTortureMutantsApply(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		replaced, err := mutants.Patched("../..", t.TempDir(), patch)
		require.NoError(t, err)
		for original, mutant := range replaced {
			before, err := os.ReadFile(original)
			require.NoError(t, err)
			after, err := os.ReadFile(mutant)
			require.NoError(t, err)
			require.NotEqual(t, string(before), string(after))
		}
	}
}
