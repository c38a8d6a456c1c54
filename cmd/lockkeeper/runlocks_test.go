// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestHoldsThatMakeNoSenseAreRefusedBeforeConnecting(t *testing.T) {
	t.Setenv(serversVariable, "127.0.0.1:1")
	for args, want := range map[string]string{
		"--elect /a --shared":                           "--shared applies to --lock only: an election has one leader",
		"--elect /a --permits 1/2":                      "--permits applies to --lock only",
		"--elect /a --lock-delay 1s":                    "--lock-delay applies to --lock only",
		"--lock /a --permits 1/2 --shared":              "--permits and --shared exclude each other",
		"--lock /a --lock /b --permits 1/2":             "--permits takes one --lock: take the others with a second lockkeeper run",
		"--lock /a --lock /b --lock-delay 1s":           "--lock-delay takes one --lock",
		"--lock /a --shared --lock-delay 1s":            "--lock-delay and --shared exclude each other",
		"--lock /a --permits 1/2 --lock-delay 1s":       "--lock-delay and --permits exclude each other",
		"--lock /a --lock-delay 0s":                     "--lock-delay 0s is not positive: leave it out",
		"--lock /a --lock-delay -1s":                    "--lock-delay -1s is not positive",
		"--lock /a --lock-delay 5s --wait 5s":           "--wait 5s ends before a --lock-delay of 5s: wait longer",
		"--lock /a --lock /b --lock /a":                 "--lock /a is given twice: leave one out",
		"--lock /a --lock b":                            `path "b" is not absolute`,
		"--lock=":                                       `path "" is not absolute`,
		"--lock /a --permits many":                      `--permits "many" is not N/LIMIT: 1/4 holds one permit of four`,
		"--lock /a --permits 1/":                        `--permits "1/" is not N/LIMIT`,
		"--lock /a --permits 1/2/3":                     `--permits "1/2/3" is not N/LIMIT`,
		"--lock /a --permits 0/2":                       "--permits 0/2: both numbers must be from 1 to 1048576",
		"--lock /a --permits 1/0":                       "--permits 1/0: both numbers must be from 1 to 1048576",
		"--lock /a --permits 1/1048577":                 "--permits 1/1048577: both numbers must be from 1 to 1048576",
		"--lock /a --slot 0":                            "--slot 0: the number of slots must be from 1 to 4096",
		"--lock /a --slot 4097":                         "--slot 4097: the number of slots must be from 1 to 4096",
		"--lock /a --slot 2 --permits 1/2":              "--permits and --slot exclude each other",
		"--lock /a --slot 2 --shared":                   "--shared and --slot exclude each other",
		"--lock /a --lock /b --slot 2":                  "--slot takes one --lock",
		"--elect /a --slot 2":                           "--slot applies to --lock only",
		"--lock /a --permits 5/4":                       "--permits 5/4: 5 permits are never free at a limit of 4: ask for fewer",
		"--url http://a --lock t/a --shared":            "--shared needs --servers: the lock service grants one exclusive lock at a time",
		"--url http://a --lock t/a --permits 1/2":       "--permits needs --servers",
		"--url http://a --lock t/a --lock-delay 1s":     "--lock-delay needs --servers",
		"--url http://a --lock t/a --lock t/b":          "a second --lock needs --servers",
		"--url http://a --lock=":                        `"" is not NAMESPACE/KEY`,
		"--elect /a --lock /b --shared --lock-delay 1s": "--lock and --elect exclude each other",
	} {
		var stdout, stderr syncBuffer
		require.Equal(t, statusUsage, run(t.Context(), append(append([]string{"run"}, strings.Fields(args)...), "--", "true"), nil, &stdout, &stderr), args)
		require.Contains(t, stderr.String(), want, args)
	}
}

// blocks starts the run command with a command that runs until the end of the test, and waits until that has started.
func blocks(t *testing.T, ensemble *zktest.Ensemble, args string) *process {
	t.Helper()
	p := startProcess(t, ensemble, append(strings.Fields("run "+args+" --"), "sh", "-c", "echo started; exec sleep 60")...)
	p.awaitOutput("started")
	return p
}

// tries runs the run command with --try, and returns its exit status and standard error.
func tries(t *testing.T, ensemble *zktest.Ensemble, args string) (status int, stderr string) {
	t.Helper()
	p := startProcess(t, ensemble, append(strings.Fields("run --try "+args+" --"), "echo", "ran")...)
	status = p.status()
	require.Equal(t, status == statusOK, p.stdout.String() == "ran\n")
	return status, p.stderr.String()
}

func TestSharedCommandsRunTogetherAndExcludeOthers(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	blocks(t, ensemble, "--lock /ledger --shared --owner reader")
	blocks(t, ensemble, "--lock /ledger --shared")
	status, stderr := tries(t, ensemble, "--lock /ledger")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, `lock /ledger: held by "reader"`)
	status, _ = tries(t, ensemble, "--lock /ledger --shared")
	require.Equal(t, statusOK, status)
	requireContenders(t, ensemble, "/ledger", 2)
}

func TestPermitsAreHeldUpToTheLimit(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	blocks(t, ensemble, "--lock /uploads --permits 2/3 --owner db7")
	status, _ := tries(t, ensemble, "--lock /uploads --permits 1/3")
	require.Equal(t, statusOK, status)
	blocks(t, ensemble, "--lock /uploads --permits 1")
	for _, args := range []string{"--lock /uploads --permits 1/3", "--lock /uploads --permits 1"} {
		status, stderr := tries(t, ensemble, args)
		require.Equal(t, statusFailed, status, args)
		require.Contains(t, stderr, `held by "db7"`)
	}
	p := startProcess(t, ensemble, strings.Fields("run --lock /uploads --permits 1/3 --wait 3s -- echo ran")...)
	require.Equal(t, statusFailed, p.status())
	require.Contains(t, p.stderr.String(), `run: semaphore /uploads: not granted within 3s: held by "db7"`)
	status, stderr := tries(t, ensemble, "--lock /uploads --permits 1/4")
	require.Equal(t, statusInternal, status)
	require.Contains(t, stderr, "limit is 4 in this process and 3 in /uploads-limit")
	status, stderr = tries(t, ensemble, "--lock /downloads --permits 1")
	require.Equal(t, statusInternal, status)
	require.Contains(t, stderr, "/downloads-limit: no limit is stored")
	requireContenders(t, ensemble, "/uploads", 2)
}

func TestCommandsWithSlotsLearnNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	for number := range 2 {
		p := startProcess(t, ensemble, append(strings.Fields("run --lock /workers --slot 2 --owner worker --"),
			"sh", "-c", `echo "number $LOCKKEEPER_SLOT."; exec sleep 60`)...)
		p.awaitOutput(fmt.Sprintf("number %d.", number))
	}
	status, stderr := tries(t, ensemble, "--lock /workers --slot 2")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, `held by "worker"`)
	status, stderr = tries(t, ensemble, "--lock /workers --permits 1/2")
	require.Equal(t, statusInternal, status)
	require.Contains(t, stderr, "a semaphore and slots cannot have the same path")
	for _, step := range []struct {
		args, stdout string
		status       int
	}{
		{"show /workers", "limit of 2 slots\n", statusOK},
		{"resize /workers 1", "", statusFailed},
		{"resize /workers 3", "/workers has a limit of 3 slots\n", statusOK},
	} {
		p := startProcess(t, ensemble, strings.Fields(step.args)...)
		require.Equal(t, step.status, p.status(), step.args)
		require.Contains(t, p.stdout.String(), step.stdout)
	}
}

func TestSeveralLocksAreTakenAllOrNone(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p := startProcess(t, ensemble, "run", "--namespace", "/app", "--lock", "/stock", "--lock", "/ledger", "--owner", "db7", "--",
		"sh", "-c", `echo "$LOCKKEEPER_PATH"; echo "$LOCKKEEPER_TOKEN"; echo started; exec sleep 60`)
	p.awaitOutput("started")
	var want string
	for _, path := range []string{"/app/stock", "/app/ledger"} {
		want += path + "\n"
	}
	for _, path := range []string{"/app/stock", "/app/ledger"} { // in the order of the flags, not of the names
		nodes, err := ensemble.Children(path)
		require.NoError(t, err)
		require.Len(t, nodes, 1)
		_, stat, err := ensemble.Get(path + "/" + nodes[0])
		require.NoError(t, err)
		want += fmt.Sprintln(stat.Czxid)
	}
	require.Equal(t, want+"started\n", p.stdout.String())

	status, stderr := tries(t, ensemble, "--lock /app/orders --lock /app/ledger")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, `/app/ledger: held by "db7"`)
	waiting := startProcess(t, ensemble, strings.Fields("run --lock /app/orders --lock /app/ledger --wait 3s -- echo ran")...)
	require.Equal(t, statusFailed, waiting.status())
	require.Contains(t, waiting.stderr.String(), `run: locks /app/orders, /app/ledger: not granted within 3s: /app/ledger is held by "db7"`)
	requireContenders(t, ensemble, "/app/orders", 0)

	nodes, err := ensemble.Children("/app/ledger")
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	require.NoError(t, ensemble.Delete("/app/ledger/"+nodes[0]))
	require.Equal(t, statusLost, p.status(), "the loss of one ends the command")
	requireContenders(t, ensemble, "/app/stock", 0)
}

func TestSeveralLocksAreSharedTogether(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	blocks(t, ensemble, "--lock /a --lock /b --shared")
	status, _ := tries(t, ensemble, "--lock /b --lock /c --shared")
	require.Equal(t, statusOK, status)
	status, _ = tries(t, ensemble, "--lock /b --lock /c")
	require.Equal(t, statusFailed, status)
}

func TestCommandStartsLockDelayAfterHolderThatCrashed(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	status, stderr := tries(t, ensemble, "--lock /ledger --lock-delay 2s")
	require.Equal(t, statusOK, status)
	require.Empty(t, stderr)
	crashed := blocks(t, ensemble, "--lock /ledger --lock-delay 2s --owner db7")
	require.NoError(t, crashed.cmd.Process.Kill())
	require.Equal(t, -1, crashed.status())
	expireAll(t, ensemble)
	began := time.Now()
	status, stderr = tries(t, ensemble, "--lock /ledger --lock-delay 2s")
	require.Equal(t, statusOK, status)
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.Regexp(t, `the former holder did not release the claim" path=/ledger token=\d+ owner=db7`, stderr)
}

func TestWaitThatEndsInLockDelayNamesFormerHolder(t *testing.T) {
	a := &runArguments{locks: []string{"/ledger"}, lockDelay: time.Minute, wait: 2 * time.Minute, waits: true}
	err := a.notGranted(&recipes.UnreleasedError{Former: recipes.FormerHolder{Owner: "db7"}, Err: context.DeadlineExceeded})
	require.EqualError(t, err, `lock /ledger: not granted within 2m0s: "db7" did not release it, and the lock-delay of 1m0s is not over`)
}
