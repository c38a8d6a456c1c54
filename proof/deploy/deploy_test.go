// SPDX-License-Identifier: Apache-2.0

// Package deploy contains only tests. They hold the files for the deployment of the lock service to the binary that
// these files start.
package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary is the file of the static binary that TestMain builds.
var binary string

// commandBound bounds each command that a test runs. On a busy machine the container engine takes a minute to start a project.
const commandBound = 5 * time.Minute

// The tests name files as they stand in service/deploy.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../service/deploy"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	folder, err := os.MkdirTemp("", "lockkeeper-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }() // a file in the folder for temporary files does no harm
	binary = filepath.Join(folder, "lockkeeper")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-C", "../../cmd/lockkeeper", "-ldflags=-s", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build lockkeeper: %v: %s", err, out)
		return 1
	}
	return m.Run()
}

// output runs a command, which must succeed, and returns what it prints to standard output.
func output(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	// Commands that remove what a test has made run after the test's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), commandBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %v: %s%s", name, args, out, &stderr)
	return string(out)
}

// read returns the content of a file of this folder.
func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return content
}

// write writes a file that a container's user can read too.
func write(t *testing.T, folder, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(folder, name), 0o644))
}
