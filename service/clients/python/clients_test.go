// SPDX-License-Identifier: Apache-2.0

// Package python_test tests the client for Python.
package python_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/service"
)

// python returns the path of an interpreter.
func python(t *testing.T) string {
	t.Helper()
	interpreter := "/usr/bin/python3" // the distribution's, where there is one
	if _, err := os.Stat(interpreter); err != nil {
		interpreter = need.Program(t, "python3", "install it")
	}
	return interpreter
}

// development starts a service that keeps all locks in memory, and returns its URL.
func development(t *testing.T) string {
	t.Helper()
	started, ended := make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- service.Run(ctx, service.Config{
			Dev: true, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Started: func(url string) { started <- url },
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return <-started
}

func TestPythonClientPassesItsTests(t *testing.T) {
	t.Parallel()
	tests := exec.CommandContext(t.Context(), python(t), "-B", "-W", "error", "-m", "unittest", "-v", "lockkeeper_test")
	tests.Env = append(os.Environ(), "LOCKKEEPER_URL="+development(t))
	output, err := tests.CombinedOutput()
	t.Logf("%s", output)
	require.NoError(t, err)
}

func TestCodeOfThePageRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/service.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "```python\n")
	require.True(t, found)
	code, _, _ := strings.Cut(after, "```")
	script := exec.CommandContext(t.Context(), python(t), "-B", "-W", "error", "-c", strings.ReplaceAll(code, "http://127.0.0.1:8080", development(t)))
	output, err := script.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Regexp(t, `^a (\d+)\nb (\d+)\n$`, string(output))
}
