// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveWithAudit starts a replica in development mode, and returns its URL.
func serveWithAudit(t *testing.T, file string) (*process, string) {
	t.Helper()
	p := newCommand(t, "serve", "--dev", "--listen", "127.0.0.1:0", "--audit", file)
	p.start()
	serving := regexp.MustCompile(`"msg":"serving","url":"([^"]+)"`)
	require.Eventually(t, func() bool { return serving.MatchString(p.stderr.String()) }, time.Minute, 5*time.Millisecond)
	return p, serving.FindStringSubmatch(p.stderr.String())[1]
}

// acquire acquires a lock, whose key is then in the audit.
func acquire(t *testing.T, url, key string) {
	t.Helper()
	res, err := http.Post(url+"/v1/locks/team/"+key+"/acquire", "application/json", strings.NewReader(`{"ownerId": "w1", "requestId": "r1"}`))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

func TestSIGHUPMakesTheServiceOpenTheFileOfItsAuditAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	p, url := serveWithAudit(t, file)
	acquire(t, url, "before")
	require.NoError(t, os.Rename(file, file+".1"))
	acquire(t, url, "between")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "audit file opened again") }, time.Minute, 5*time.Millisecond)
	acquire(t, url, "after")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, p.status())
	rows := func(name string) (keys []string) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for row := range strings.Lines(string(text)) {
			var event struct{ Key string }
			require.NoError(t, json.Unmarshal([]byte(row), &event))
			keys = append(keys, event.Key)
		}
		return keys
	}
	require.Equal(t, []string{"before", "between"}, rows(file+".1"))
	require.Equal(t, []string{"after"}, rows(file))
}

func TestAuditOnStandardOutputHasOnlyEvents(t *testing.T) {
	t.Parallel()
	p, url := serveWithAudit(t, "/dev/stdout")
	acquire(t, url, "orders")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, p.status())
	require.Equal(t, 1, strings.Count(p.stdout.String(), "\n"), p.stdout)
	require.Contains(t, p.stdout.String(), `"action":"acquire"`)
}

func TestServeThatCannotWriteItsAuditExitsWithStatus1(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit")
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	reader, err := syscall.Open(file, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(reader)) })
	for err == nil { // until it is full
		_, err = syscall.Write(reader, make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.EAGAIN)
	p, url := serveWithAudit(t, file)
	acquire(t, url, "orders")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusFailed, p.status())
	require.Contains(t, p.stderr.String(), "lockkeeper: serve: close audit: the file blocks, and lacks 1 events\n")
}

func TestServeThatIsInterruptedBeforeItServesExitsWithStatus0(t *testing.T) {
	t.Parallel()
	p := newCommand(t, "serve", "--dev", "--servers", "127.0.0.1:1", "--listen", "127.0.0.1:0")
	p.start()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "127.0.0.1:1") }, time.Minute, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, p.status())
	require.NotContains(t, p.stderr.String(), "lockkeeper: ")
}
