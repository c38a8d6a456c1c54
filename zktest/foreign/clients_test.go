// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"errors"
	"os"
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

// python runs a script of this folder, with the distribution's Python and Kazoo.
func python(t *testing.T, script string, args ...string) *contender.Process {
	t.Helper()
	cmd, err := contender.Python(t.Context(), script, args...)
	requireInstalled(t, err)
	return contender.Start(t, cmd)
}

// contend runs Contend.java, with Java's ZooKeeper client and Curator.
func contend(t *testing.T, args ...string) *contender.Process {
	t.Helper()
	compile.Do(func() {
		var err error
		classes, err = os.MkdirTemp("", "foreign") //nolint:usetesting // all tests share it, and TestMain removes it
		require.NoError(t, err)
		compiled, missing = contender.CompileJava(t.Context(), "Contend.java", classes)
	})
	requireInstalled(t, missing)
	command := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp", compiled, "Contend"}
	return contender.Start(t, exec.CommandContext(t.Context(), "java", append(command, args...)...))
}

// Contend.java is compiled once, into a folder that TestMain removes.
var (
	compile  sync.Once
	compiled string // the class path
	missing  error  // why it could not be compiled
	classes  string
)
