// SPDX-License-Identifier: Apache-2.0

package pictures

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the pictures")

// compare requires that a picture is the file in docs/images.
func compare(t *testing.T, name string, picture []byte) {
	t.Helper()
	file := filepath.Join("..", "..", "..", "docs", "images", name)
	if *update {
		require.NoError(t, os.WriteFile(file, picture, 0o644))
	}
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(written), string(picture),
		"docs/images/%s no longer shows what the code does: `go test ./pictures -update` in torture writes it", name)
}
