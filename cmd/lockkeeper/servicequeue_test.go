// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/client"
)

// atService runs a command against a service, and returns its exit status and what it printed.
func atService(t *testing.T, url string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	p := newCommand(t, append(args, "--url", url)...)
	p.start()
	status = p.status()
	return status, p.stdout.String(), p.stderr.String()
}

func TestLocksOfServiceAreListedAndShown(t *testing.T) {
	t.Parallel()
	locks := startService(t)
	holder := serviceClient(t, locks)
	hold, err := holder.Lock(t.Context(), "team", "jobs/nightly")
	require.NoError(t, err)
	other, err := holder.Lock(t.Context(), "team", "orders")
	require.NoError(t, err)

	status, stdout, stderr := atService(t, locks, "ls", "team/jobs/", "--json")
	require.Equal(t, statusOK, status, stderr)
	var rows []listRow
	require.NoError(t, json.Unmarshal([]byte(stdout), &rows))
	require.Len(t, rows, 1)
	require.Equal(t, "team/jobs/nightly", rows[0].Path)
	require.Equal(t, []any{"the other", hold.Token(), "lease", 0}, []any{rows[0].Holder.Owner, rows[0].Holder.Token, rows[0].Holder.Kind, rows[0].Waiters})
	require.WithinDuration(t, time.Now().Add(client.DefaultTTL), *rows[0].Holder.Expires, 20*time.Second)
	_, stdout, _ = atService(t, locks, "ls", "team")
	require.Regexp(t, `^PATH .*\nteam/jobs/nightly +the other +0 +- +\d+ +lease\nteam/orders .*\n$`, stdout)

	_, stdout, _ = atService(t, locks, "show", "team/orders", "--json")
	var row listRow
	require.NoError(t, json.Unmarshal([]byte(stdout), &row))
	require.Equal(t, other.Token(), row.Holder.Token)
	_, stdout, _ = atService(t, locks, "show", "team/orders")
	require.Regexp(t, `(?m)^holder +the other +\d+ +lease +\d{4}.* 0$`, stdout)
	_, stdout, _ = atService(t, locks, "show", "team/free")
	require.Equal(t, "team/free is free\n", stdout)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, other.Unlock(t.Context()))
}

// The first contender of such a lock still waits: its caller may have died.
func TestLockOfServiceWithWaitersAndNoHolderIsNotShownAsFree(t *testing.T) {
	t.Parallel()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"lockKey": "orders", "locked": false, "queueLength": 2}`)
	}))
	t.Cleanup(answers.Close)
	status, stdout, stderr := atService(t, answers.URL, "show", "team/orders")
	require.Equal(t, statusOK, status, stderr)
	require.Equal(t, "team/orders is held by no client; waiters: 2\n", stdout)
	_, stdout, _ = atService(t, answers.URL, "show", "team/orders", "--json")
	require.JSONEq(t, `{"path": "team/orders", "holder": null, "waiters": 2}`, stdout)
}

func TestLockOfServiceIsTakenFromItsHolder(t *testing.T) {
	t.Parallel()
	locks := startService(t)
	watched := newCommand(t, "watch", "team/orders", "--url", locks, "--json")
	watched.start()
	watched.awaitOutput(`"holder":null}`)
	p := startRun(t, "--url", locks, "--ttl", "10s", "--lock", "team/orders", "--owner", "db7", "--", "sh", "-c", "echo $LOCKKEEPER_TOKEN; exec sleep 60")
	p.awaitOutput("\n")
	token := strings.TrimSpace(p.stdout.String())
	watched.awaitOutput(`"owner":"db7","token":"` + token + `"`)
	force := func(args ...string) (int, string, string) {
		return atService(t, locks, append([]string{"release", "team/orders", "--reason", "db7 hangs", "--force"}, args...)...)
	}
	status, _, stderr := force("--token", token+"0")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "release team/orders: HOLDER_CHANGED")
	require.Contains(t, stderr, "the first contender has token "+token+"\n")

	status, stdout, stderr := force("--token", token)
	require.Equal(t, statusOK, status, stderr)
	require.Equal(t, "revoked team/orders: token "+token+", reason \"db7 hangs\"\n", stdout)
	require.Empty(t, stderr)
	require.Equal(t, statusLost, p.status())
	require.Contains(t, p.stderr.String(), `LOCK_REVOKED`)
	require.Contains(t, p.stderr.String(), "db7 hangs")

	hold, err := serviceClient(t, locks).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	status, stdout, stderr = force("--mode", "now", "--token", hold.Token().String())
	require.Equal(t, statusOK, status, stderr)
	require.Contains(t, stdout, "released team/orders: ")
	require.Contains(t, stderr, "only a resource that checks the token is safe")
	require.ErrorIs(t, hold.Unlock(t.Context()), client.ErrLost)
	require.Eventually(t, func() bool { return strings.HasSuffix(watched.stdout.String(), `"holder":null}`+"\n") }, time.Minute, 5*time.Millisecond)
	require.NoError(t, watched.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, watched.status())
}

func TestCommandsAtServiceRefuseWrongUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"ls":                        "the namespace is missing",
		"show team":                 `"team" is not NAMESPACE/KEY`,
		"watch /orders":             `"/orders" is not NAMESPACE/KEY`,
		"show team/a --servers b:1": "--url and --servers exclude each other",
		"ls team --token-file gone": "--token-file: open gone",
	} {
		status, _, stderr := atService(t, "http://127.0.0.1:1", strings.Fields(args)...)
		require.Equal(t, statusUsage, status, args)
		require.Contains(t, stderr, want, args)
	}
	status, _, stderr := atService(t, "http://127.0.0.1:1", "ls", "team", "--connect-timeout", "200ms")
	require.Equal(t, statusUnavailable, status)
	require.Contains(t, stderr, "ls: list team: no server answered in time (200ms)")
}
