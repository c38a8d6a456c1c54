// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A process is the command in a separate process.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *syncBuffer
	stderr *syncBuffer
}

// newProcess returns the command, connected to the ensemble. stdin may be empty.
func newProcess(t *testing.T, ensemble *zktest.Ensemble, args ...string) *process {
	t.Helper()
	p := newCommand(t, args...)
	p.cmd.Env = append(p.cmd.Env, serversVariable+"="+connectString(ensemble))
	return p
}

// newCommand returns the command, without servers.
func newCommand(t *testing.T, args ...string) *process {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p := &process{t: t, cmd: exec.CommandContext(ctx, program, args...), stdout: &syncBuffer{}, stderr: &syncBuffer{}}
	p.cmd.Env = append(os.Environ(), mainVariable+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	p.cmd.WaitDelay = 10 * time.Second // processes that it left behind have its output open
	return p
}

// startProcess starts the command. It is killed at the end of the test if it still runs.
func startProcess(t *testing.T, ensemble *zktest.Ensemble, args ...string) *process {
	t.Helper()
	p := newProcess(t, ensemble, args...)
	p.start()
	return p
}

// start starts the command.
func (p *process) start() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Start())
	p.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
}

// status waits for the end, and returns the exit status.
func (p *process) status() int {
	p.t.Helper()
	_ = p.cmd.Wait() // its error repeats the status
	p.t.Logf("%s%s", p.stdout, p.stderr)
	return p.cmd.ProcessState.ExitCode()
}

// awaitOutput waits until standard output contains text.
func (p *process) awaitOutput(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.stdout.String(), text) }, time.Minute, 5*time.Millisecond,
		"no %q in %s%s", text, p.stdout, p.stderr)
}

// runInProcess executes the command in this process, and returns what it printed.
func runInProcess(t *testing.T, ensemble *zktest.Ensemble, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errors bytes.Buffer
	t.Setenv(serversVariable, connectString(ensemble))
	status = run(t.Context(), args, nil, &out, &errors)
	return status, out.String(), errors.String()
}

// startServers starts an ensemble that is stopped at the end of the test. opts may be nil.
func startServers(t *testing.T, opts *zktest.Options) *zktest.Ensemble {
	t.Helper()
	return zktest.Start(t, opts)
}

// addresses returns the addresses of the servers of an ensemble.
func addresses(ensemble *zktest.Ensemble) []string { return ensemble.Addrs() }

// connectString returns the servers of an ensemble as a connect string.
func connectString(ensemble *zktest.Ensemble) string { return strings.Join(addresses(ensemble), ",") }

// apply applies a fault.
func apply(t *testing.T, ensemble *zktest.Ensemble, fault string) {
	t.Helper()
	require.NoError(t, ensemble.Apply(fault))
}

// expireAll ends all sessions of the ensemble.
func expireAll(t *testing.T, ensemble *zktest.Ensemble) {
	t.Helper()
	for _, s := range ensemble.Sessions() {
		require.NoError(t, ensemble.Expire(t.Context(), s.ID))
	}
}

// clientOf returns a client of the ensemble.
func clientOf(t *testing.T, ensemble *zktest.Ensemble, owner string) *recipes.Client {
	t.Helper()
	client, err := recipes.Connect(t.Context(), addresses(ensemble), &recipes.Options{Owner: owner, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// requireContenders waits until a queue has this number of contenders.
func requireContenders(t *testing.T, ensemble *zktest.Ensemble, path string, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		children, err := ensemble.Children(path)
		return err != nil && want == 0 || err == nil && len(children) == want
	}, time.Minute, 5*time.Millisecond, "%s does not have %d contenders: %s", path, want, ensemble.Dump())
}
