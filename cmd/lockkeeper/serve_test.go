// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startServe runs lockkeeper serve --dev. It returns its URL, and a function that interrupts it and returns its status.
func startServe(t *testing.T) (url string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	answers, stdout := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"serve", "--dev", "--listen", "127.0.0.1:0"}, strings.NewReader(""), stdout, &syncBuffer{})
	}()
	first, err := bufio.NewReader(answers).ReadString('\n')
	require.NoError(t, err)
	url, named := strings.CutPrefix(strings.TrimSpace(first), "export LOCKKEEPER_URL=")
	require.True(t, named, first)
	return url, func() int { cancel(); return <-status }
}

func TestServePrintsItsAddressAndEndsWithStatus0(t *testing.T) {
	url, stop := startServe(t)
	res, err := http.Post(url+"/v1/locks/team/orders/acquire", "application/json", strings.NewReader(`{"ownerId": "w1", "requestId": "r1"}`))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, statusOK, stop())
}

func TestServeServesAfterTheReaderOfItsOutputHasGone(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	p := newCommand(t, "serve", "--dev", "--listen", "127.0.0.1:0")
	p.cmd.Stdout = writer
	p.start()
	require.NoError(t, writer.Close())
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), `"msg":"serving"`) }, 30*time.Second, 5*time.Millisecond, p.stderr)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, p.status())
}

func TestServeRefusesCallersWithoutCredentialsOutsideDevelopment(t *testing.T) {
	t.Setenv(serversVariable, "")
	for want, args := range map[string][]string{
		"--servers is missing: name the": {"serve"},
		"file of principals is missing":  {"serve", "--servers", "127.0.0.1:1"},
		"serves a loopback address only": {"serve", "--dev", "--listen", ":8080"},
	} {
		stderr := &syncBuffer{}
		require.Equal(t, statusUsage, run(t.Context(), args, strings.NewReader(""), io.Discard, stderr))
		require.Contains(t, stderr.String(), want)
	}
}
