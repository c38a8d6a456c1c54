// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// address returns the address in the next line of standard output.
func (p *devServer) address(what string) string {
	p.t.Helper()
	url, named := strings.CutPrefix(p.nextLine(), "# "+what+": ")
	require.True(p.t, named)
	return url
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode, url)
	return string(body)
}

func TestDevLabServesPageAndServiceOfItsServers(t *testing.T) {
	t.Parallel()
	p := startDev(t, "--lab", "--lab-listen", "127.0.0.1:0")
	require.Len(t, p.servers, 3)
	page, service := p.address("laboratory"), p.address("lock service")
	require.Contains(t, get(t, page), "<title>Laboratory")
	require.Contains(t, get(t, page+"api/info"), p.servers[2])

	conn := p.connect()
	require.Eventually(t, func() bool {
		contenders, _, err := conn.Children("/lab/ledger")
		return err == nil && len(contenders) == 3
	}, time.Minute, 5*time.Millisecond, "the contenders queue on its servers")
	res, err := http.Post(service+"v1/locks/team/orders/acquire", "application/json", strings.NewReader(`{"ownerId": "w1", "requestId": "r1"}`))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	namespaces, _, err := conn.Children("/lockkeeper")
	require.NoError(t, err)
	require.Contains(t, namespaces, "team", "the service has its locks on these servers")
	require.Equal(t, statusOK, p.end())
}

func TestDevLabFailsOnPortInUseAndNamesIt(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	var stdout, stderr bytes.Buffer
	args := []string{"dev", "--listen", "127.0.0.1:0", "--lab", "--lab-listen", listener.Addr().String()}
	require.Equal(t, statusFailed, run(t.Context(), args, nil, &stdout, &stderr))
	require.Regexp(t, fmt.Sprintf(`(?m)^lockkeeper: dev: serve the laboratory: .*%s: .*in use$`, listener.Addr()), stderr.String())
}
