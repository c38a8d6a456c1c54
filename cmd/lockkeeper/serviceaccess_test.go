// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// startService starts a lock service for the test, and returns its URL.
func startService(t *testing.T) string {
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

// startCut starts a proxy in front of a service, and returns its URL. While cut is true, requests get no answer. authorized is
// the last credential that passed.
func startCut(t *testing.T, target string, cut *atomic.Bool, authorized *atomic.Value) string {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // the server notices the caller's end only after the body
			<-r.Context().Done()
			return
		}
		authorized.Store(r.Header.Get("Authorization"))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// startRun starts the run command without an ensemble.
func startRun(t *testing.T, args ...string) *process {
	t.Helper()
	p := newCommand(t, append([]string{"run"}, args...)...)
	p.start()
	return p
}

func serviceClient(t *testing.T, urls string) *client.Client {
	t.Helper()
	c, err := client.New(urls, &client.Options{Owner: "the other"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestRunUnderLeaseExitsWithStatusOfItsCommand(t *testing.T) {
	t.Parallel()
	locks := startService(t)
	other := serviceClient(t, locks)
	for _, kind := range []string{"--lock", "--elect"} {
		for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -TERM $$": statusSignalled + 15} {
			p := startRun(t, "--url", locks, kind, "team/a/b", "--", "sh", "-c", script)
			require.Equal(t, want, p.status())
			require.Empty(t, p.stderr.String())
			hold, err := other.TryLock(t.Context(), "team", "a/b")
			require.NoError(t, err, "the lease was released")
			require.NoError(t, hold.Unlock(t.Context()))
		}
	}
}

func TestRunUnderLeaseGivesCommandItsToken(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	var authorized atomic.Value
	locks := startCut(t, startService(t), &cut, &authorized)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	p := startRun(t, "--url", locks, "--token-file", file, "--lock", "team/orders", "--owner", "me", "--",
		"sh", "-c", `echo "$LOCKKEEPER_TOKEN $LOCKKEEPER_OWNER $LOCKKEEPER_PATH"`)
	require.Equal(t, statusOK, p.status())
	require.Regexp(t, `^[1-9]\d* me team/orders\n$`, p.stdout.String())
	require.Equal(t, "Bearer secret", authorized.Load())
}

func TestRunThatGetsNoLeaseExitsWithStatus1(t *testing.T) {
	t.Parallel()
	locks := startService(t)
	hold, err := serviceClient(t, locks).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	refused := func(args string) string {
		p := startRun(t, strings.Fields("--url "+locks+" "+args+" -- echo ran")...)
		require.Equal(t, statusFailed, p.status(), args)
		require.Empty(t, p.stdout.String())
		return p.stderr.String()
	}
	require.Contains(t, refused("--lock team/orders --try"), `held by "the other"`)
	for _, kind := range []string{"--lock", "--elect"} {
		named := false
		// The last eighth of a wait, of 1 s at most, is for the answer that names the holder: a busy machine may take longer.
		for _, wait := range []string{"2s", "4s", "8s", "8s", "8s"} {
			message := refused(kind + " team/orders --wait " + wait)
			notGranted := " team/orders: not granted within " + wait
			require.Contains(t, message, notGranted)
			if named = strings.Contains(message, notGranted+`: held by "the other"`); named {
				break
			}
		}
		require.True(t, named, "%s: no answer named the holder", kind)
	}
	waiting := startRun(t, "--url", locks, "--lock", "team/orders", "--", "echo", "ran")
	require.Eventually(t, func() bool {
		res, err := http.Get(locks + "/v1/locks/team/orders")
		if err != nil {
			return false
		}
		answer, err := io.ReadAll(res.Body)
		return err == nil && res.Body.Close() == nil && strings.Contains(string(answer), `"queueLength":1`)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, waiting.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, statusSignalled+2, waiting.status())
	require.NoError(t, hold.Unlock(t.Context()))
}

// The wait ends while its request is under way, at a replica that is there.
func TestWaitThatEndsBeforeItsAnswerExitsWithStatus1(t *testing.T) {
	t.Parallel()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a broken request is one without a body
		switch {
		case r.URL.Path == "/readyz":
		case strings.Contains(string(body), `"waitMillis":0`):
			w.WriteHeader(http.StatusConflict)
		default:
			<-r.Context().Done()
		}
	}))
	t.Cleanup(slow.Close)
	p := startRun(t, "--url", slow.URL, "--lock", "team/orders", "--wait", "300ms", "--", "echo", "ran")
	require.Equal(t, statusFailed, p.status())
	require.Equal(t, "lockkeeper: run: lock team/orders: not granted within 300ms\n", p.stderr.String())
}

func TestRunWithoutServiceExitsWithStatus69(t *testing.T) {
	t.Parallel()
	p := startRun(t, "--url", "http://127.0.0.1:1", "--connect-timeout", "200ms", "--lock", "team/orders", "--", "true")
	require.Equal(t, statusUnavailable, p.status())
	require.Contains(t, p.stderr.String(), "127.0.0.1:1")
}

func TestRunThatServiceRefusesExitsWithStatus70(t *testing.T) {
	t.Parallel()
	p := startRun(t, "--url", startService(t), "--ttl", "59m", "--lock", "b@d/orders", "--", "true")
	require.Equal(t, statusInternal, p.status())
	require.Contains(t, p.stderr.String(), "run: lock b@d/orders: ")
}

func TestRunWithWrongUsageOfServiceExitsWithStatus64(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--lock /a --token-file x":                        "--token-file needs --url",
		"--lock /a --ttl 1s":                              "--ttl needs --url",
		"--url http://a --servers b:1 --lock a/b":         "--url and --servers exclude each other",
		"--url http://a --session-timeout 1s --lock a/b":  "--url and --session-timeout exclude each other",
		"--url http://a --lock orders":                    `"orders" is not NAMESPACE/KEY`,
		"--url http://a --elect /orders":                  `"/orders" is not NAMESPACE/KEY`,
		"--url locks.example.com --lock a/b":              "is not the URL of a lock service",
		"--url http://a --token-file missing --lock a/b":  "--token-file: open missing",
		"--url http://a --ttl 1ms --lock a/b":             "TTL 1ms is not between",
		"--url http://a --connect-timeout 0s --lock a/b":  "--connect-timeout 0s is not positive",
		"--url http://a --lock a/b --elect a/b --ttl 10s": "--lock and --elect exclude each other",
		"--url http://a --auth-file x --lock a/b":         "--url and --auth-file exclude each other",
		"--url https://a --cert x --lock a/b":             "--cert and --key are needed together",
		"--url https://a --ca missing --lock a/b":         "--ca: open missing",
		"--url https://a --ca /dev/null --lock a/b":       "--ca: read /dev/null: there is no certificate in it",
		"--url https://a --cert x --key y --lock a/b":     "--cert, --key: open x",
		"--servers a:1 --key x --lock /a":                 "--cert and --key are needed together",
		"--servers a:1 --auth-file missing --lock /a":     "--auth-file: open missing",
		"--servers a:1 --auth-file /dev/null --lock /a":   "--auth-file: read /dev/null: the content is not user:password",
	} {
		p := startRun(t, append(strings.Fields(args), "--", "true")...)
		require.Equal(t, statusUsage, p.status(), args)
		require.Contains(t, p.stderr.String(), want, args)
	}
}

func TestRunUsesServiceOfEnvironmentUnlessFlagNamesServers(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	locks := startService(t)
	path := func(servers string, args ...string) (int, string) {
		p := newCommand(t, append(append([]string{"run"}, args...), "--", "sh", "-c", "echo $LOCKKEEPER_PATH")...)
		p.cmd.Env = append(p.cmd.Env, urlVariable+"="+locks, serversVariable+"="+servers)
		p.start()
		return p.status(), p.stdout.String() + p.stderr.String()
	}
	status, printed := path("", "--lock", "team/orders")
	require.Equal(t, statusOK, status)
	require.Equal(t, "team/orders\n", printed)
	status, printed = path("", "--servers", connectString(ensemble), "--lock", "/ledger")
	require.Equal(t, statusOK, status)
	require.Equal(t, "/ledger\n", printed)
	status, printed = path(connectString(ensemble), "--lock", "/ledger")
	require.Equal(t, statusUsage, status)
	require.Contains(t, printed, "LOCKKEEPER_URL and LOCKKEEPER_SERVERS are both set: choose with --url or --servers")
	for _, url := range [][]string{nil, {"--url", locks}} {
		status, printed = path("", append(url, "--lock", "team/orders", "--guard")...)
		require.Equal(t, statusUsage, status)
		require.Contains(t, printed, "--guard needs --servers: a lease of the lock service has no session")
		status, printed = path("", append(url, "--elect", "team/orders", "--hand-over-to", "b")...)
		require.Equal(t, statusUsage, status)
		require.Contains(t, printed, "--hand-over-to applies to --elect with --servers only")
	}
}

// The lock is granted TTL/32 after the end of the lease: that is what a busy machine may take to send SIGKILL.
func TestCommandOfUnreachableLeaseIsKilledBeforeLockIsGranted(t *testing.T) {
	t.Parallel()
	locks := startService(t)
	var cut atomic.Bool
	var authorized atomic.Value
	p := startRun(t, "--url", startCut(t, locks, &cut, &authorized), "--ttl", "30s", "--lock", "team/orders", "--", "sh", "-c",
		`trap '' TERM; echo ready; while sleep 0.01; do date +%s%N; done`)
	p.awaitOutput("ready")
	cut.Store(true)
	hold, err := serviceClient(t, locks).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	granted := time.Now()
	require.Equal(t, statusLost, p.status())
	rows := strings.Fields(p.stdout.String())
	last, err := strconv.ParseInt(rows[len(rows)-1], 10, 64)
	require.NoError(t, err)
	require.Less(t, last, granted.UnixNano())
	t.Logf("the command ended %v before the grant", granted.Sub(time.Unix(0, last)))
	require.Regexp(t, `run: hold team/orders: hold lost: no renewal in time: .*: the command gets SIGTERM, and SIGKILL in `, p.stderr.String())
	require.Contains(t, p.stderr.String(), "the command ended with status 137")
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestRunThatWaitsForServiceNamesWhatItCannotReach(t *testing.T) {
	t.Parallel()
	p := startRun(t, "--url", "http://127.0.0.1:1", "--connect-timeout", "1m", "--lock", "team/orders", "--", "true")
	refused := regexp.MustCompile(`(?m)^lockkeeper: run: reach http://127\.0\.0\.1:1: .*connection refused$`)
	require.Eventually(t, func() bool { return refused.MatchString(p.stderr.String()) }, time.Minute, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
}
