// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

func TestRunExitsWithStatusOfItsCommand(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	for _, test := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0},
		{"exit 3", 3},
		{"exit 255", 255},
		{"kill -KILL $$", statusSignalled + 9},
		{"kill -TERM $$", statusSignalled + 15},
	} {
		t.Run(test.script, func(t *testing.T) {
			for _, kind := range []string{"--lock", "--elect"} {
				p := startProcess(t, ensemble, "run", kind, "/of"+kind, "--", "sh", "-c", test.script)
				require.Equal(t, test.want, p.status())
				require.Empty(t, p.stderr.String())
				requireContenders(t, ensemble, "/of"+kind, 0)
			}
		})
	}
}

func TestRunGivesCommandTokenAndStreams(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p := newProcess(t, ensemble, "run", "--lock", "/ledger", "--namespace", "/app", "--owner", "me", "--",
		"sh", "-c", `cat; echo "$LOCKKEEPER_TOKEN $LOCKKEEPER_OWNER $LOCKKEEPER_PATH"; echo complaint >&2; ps -o pgid= -p $$; echo $$; sleep 60 < /dev/null`)
	p.cmd.Stdin = strings.NewReader("from standard input\n")
	require.NoError(t, p.cmd.Start())
	requireContenders(t, ensemble, "/app/ledger", 1)
	children, err := ensemble.Children("/app/ledger")
	require.NoError(t, err)
	_, stat, err := ensemble.Get("/app/ledger/" + children[0])
	require.NoError(t, err)
	p.awaitOutput(fmt.Sprintf("from standard input\n%d me /app/ledger\n", stat.Czxid))
	require.Eventually(t, func() bool { return len(strings.Fields(p.stdout.String())) == 8 }, time.Minute, 5*time.Millisecond)
	words := strings.Fields(p.stdout.String())
	require.Equal(t, words[6], words[7], "it leads its own process group")
	require.Eventually(t, func() bool { return p.stderr.String() == "complaint\n" }, time.Minute, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
}

func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	// Under nohup, lockkeeper and the shell would ignore SIGHUP: what a process handles has its default in its children.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	defer signal.Stop(handled)
	ensemble := startServers(t, nil)
	p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--", "sh", "-c",
		`trap 'echo got INT' INT; trap 'echo got HUP' HUP; trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done`)
	p.awaitOutput("ready")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGINT} {
		p.stdout.reset()
		require.NoError(t, p.cmd.Process.Signal(s))
		p.awaitOutput("got " + map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGHUP: "HUP"}[s])
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 7, p.status())
	requireContenders(t, ensemble, "/ledger", 0)
}

func TestRunThatDoesNotAcquireLockExitsWithStatus1(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	mu, err := lock.New(clientOf(t, ensemble, "the other"), "/ledger", nil)
	require.NoError(t, err)
	hold, err := mu.Lock(t.Context())
	require.NoError(t, err)
	for _, args := range []string{"--lock /ledger --try", "--lock /ledger --wait 3s", "--elect /ledger --wait 3s"} {
		p := startProcess(t, ensemble, strings.Fields("run "+args+" -- echo ran")...)
		require.Equal(t, statusFailed, p.status(), args)
		require.Empty(t, p.stdout.String())
		if strings.Contains(args, "--lock") {
			require.Contains(t, p.stderr.String(), `held by "the other"`)
		}
		if strings.Contains(args, "--wait") {
			require.Contains(t, p.stderr.String(), " /ledger: not granted within 3s")
		}
		requireContenders(t, ensemble, "/ledger", 1)
	}
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestRunWithWrongUsageExitsWithStatus64(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"run -- true", "--lock or --elect is missing"},
		{"run --lock /a --elect /b -- true", "--lock and --elect exclude each other"},
		{"run --elect /a --try -- true", "--try applies to --lock only"},
		{"run --lock /a --guard --ca x -- true", "--guard connects without TLS"},
		{"run --url http://localhost --lock a/b --guard -- true", "--guard needs --servers"},
		{"run --lock /a --try --wait 1s -- true", "--try and --wait exclude each other"},
		{"run --lock /a --wait 0s -- true", "--wait 0s is not positive"},
		{"run --lock /a", "the command to run is missing"},
		{"run --lock /a --servers x:y -- true", `--servers: server "x:y" has no valid port`},
		{"run --lock /a --session-timeout 1ms -- true", "--session-timeout 1ms is below the minimum"},
		{"run --lock /a --connect-timeout 0s -- true", "--connect-timeout 0s is not positive"},
		{"run --lock /a --namespace app -- true", `path "app" is not absolute`},
		{"run --lock a -- true", `path "a" is not absolute`},
	} {
		status, stdout, stderr := runInProcess(t, startServers(t, nil), strings.Fields(test.args)...)
		require.Equal(t, statusUsage, status, test.args)
		require.Contains(t, stderr, test.want, test.args)
		require.Contains(t, stderr, "see 'lockkeeper run --help'\n", test.args)
		require.Empty(t, stdout, test.args)
	}
}

func TestServersAreRequired(t *testing.T) {
	t.Setenv(serversVariable, "")
	var stdout, stderr syncBuffer
	require.Equal(t, statusUsage, run(t.Context(), strings.Fields("run --lock /a -- true"), nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "--servers is missing: name the servers, or set LOCKKEEPER_SERVERS")
}

func TestRunWithoutServersExitsWithStatus69(t *testing.T) {
	t.Setenv(serversVariable, "127.0.0.1:1")
	var stdout, stderr syncBuffer
	require.Equal(t, statusUnavailable, run(t.Context(), strings.Fields("run --connect-timeout 1s --lock /a -- true"), nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "127.0.0.1:1")
}

func TestRunWhoseServersDisappearWhileItWaitsExitsWithStatus69(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	take(t, clientOf(t, ensemble, "a"), "/ledger")
	p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--wait", "10s", "--session-timeout", "4s", "--", "echo", "ran")
	requireContenders(t, ensemble, "/ledger", 2)
	apply(t, ensemble, "kill 1")
	require.Equal(t, statusUnavailable, p.status())
	require.Empty(t, p.stdout.String())
}

func TestRunThatServerRefusesExitsWithStatus70(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	_, err := clientOf(t, ensemble, "").Conn().Create("/secret", nil, 0, zk.DigestACL(zk.PermAll, "user", "password"))
	require.NoError(t, err)
	p := startProcess(t, ensemble, "run", "--lock", "/secret/ledger", "--", "echo", "ran")
	require.Equal(t, statusInternal, p.status())
	require.Contains(t, p.stderr.String(), "zk: not authenticated")
	require.Empty(t, p.stdout.String())
}

func TestRunInterruptedWhileConnectingExitsWithStatusOfSignal(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	p := startProcess(t, startServers(t, nil), "run", "--servers", silent.Addr().String(), "--connect-timeout", "1m", "--lock", "/ledger", "--", "echo", "ran")
	conn, err := silent.Accept()
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
}

func TestRunOfMissingCommandTakesNoLock(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	take(t, clientOf(t, ensemble, "a"), "/ledger") // for which a command that is found would wait
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("no program"), 0o600))
	for command, want := range map[string]int{"/missing/command": statusNotFound, "missing-command": statusNotFound, plain: statusNotExecuted} {
		p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--", command)
		require.Equal(t, want, p.status(), command)
		requireContenders(t, ensemble, "/ledger", 1)
	}
}

func TestRunInterruptedWhileWaitingLeavesNoNode(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	mu, err := lock.New(clientOf(t, ensemble, ""), "/ledger", nil)
	require.NoError(t, err)
	hold, err := mu.Lock(t.Context())
	require.NoError(t, err)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--", "echo", "ran")
		requireContenders(t, ensemble, "/ledger", 2)
		require.NoError(t, p.cmd.Process.Signal(s))
		require.Equal(t, statusSignalled+int(s), p.status())
		require.Empty(t, p.stdout.String())
		requireContenders(t, ensemble, "/ledger", 1)
	}
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestRunThatWaitsForServersNamesWhatItCannotReach(t *testing.T) {
	t.Parallel()
	p := newCommand(t, "run", "--servers", "127.0.0.1:1", "--session-timeout", "4s", "--connect-timeout", "1m", "--lock", "/ledger", "--", "true")
	p.start()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "\n") }, time.Minute, 5*time.Millisecond)
	require.Regexp(t, `level=WARN msg="no zookeeper server serves the session" .*127\.0\.0\.1:1: .*connection refused`, p.stderr.String())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
}
