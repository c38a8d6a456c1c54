// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

// requireInstalled ends a test whose client is not installed.
func requireInstalled(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, contender.ErrNotInstalled) {
		need.Lacking(tb, "%v", err)
	}
	require.NoError(tb, err)
}

// python runs a script of this folder, with the distribution's Python and Kazoo. Only the first call checks that both are installed.
func python(t *testing.T, script string, args ...string) *contender.Process {
	t.Helper()
	first, err := findPython()
	requireInstalled(t, err)
	cmd := exec.CommandContext(t.Context(), first.Path, append([]string{script}, args...)...)
	cmd.Env = first.Env
	return contender.Start(t, cmd)
}

var findPython = sync.OnceValues(func() (*exec.Cmd, error) { return contender.Python(context.Background(), "") })

// contend runs Contend.java, with Java's ZooKeeper client and Curator.
func contend(t *testing.T, args ...string) *contender.Process {
	t.Helper()
	compile.Do(func() { compiled, missing = findClasses(t) })
	requireInstalled(t, missing)
	return contender.Start(t, compiled.command(t, args...))
}

// Contend.java is compiled by the first test that needs it, unless an earlier run has.
var (
	compile  sync.Once
	compiled *classes
	missing  error // why it could not be compiled
)
