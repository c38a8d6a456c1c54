// SPDX-License-Identifier: Apache-2.0

// Package python_test tests the client for Python.
package python_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
)

func TestPythonClientPassesItsTests(t *testing.T) {
	t.Parallel()
	interpreter := "/usr/bin/python3" // the distribution's, where there is one
	if _, err := os.Stat(interpreter); err != nil {
		interpreter, err = exec.LookPath("python3")
		if err != nil && os.Getenv("CI") == "" {
			t.Skip("python3 is not installed")
		}
		require.NoError(t, err)
	}
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
	tests := exec.CommandContext(t.Context(), interpreter, "-B", "-W", "error", "-m", "unittest", "-v", "lockkeeper_test")
	tests.Env = append(os.Environ(), "LOCKKEEPER_URL="+<-started)
	output, err := tests.CombinedOutput()
	t.Logf("%s", output)
	require.NoError(t, err)
}
