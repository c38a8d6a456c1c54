// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A pod is a process of the rollout example.
type pod struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	output *bufio.Scanner
}

func startPod(t *testing.T, binary, servers string) *pod {
	t.Helper()
	p := &pod{t: t, cmd: exec.CommandContext(t.Context(), binary, "-servers", servers, "-listen", "127.0.0.1:0")}
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.cmd.Stderr = os.Stderr
	require.NoError(t, p.cmd.Start())
	p.output = bufio.NewScanner(out)
	p.url = "http://" + strings.TrimPrefix(p.await("serves "), "serves ")
	return p
}

// await returns the next line, which begins with the prefix.
func (p *pod) await(prefix string) string {
	p.t.Helper()
	require.True(p.t, p.output.Scan(), "the process has ended: %v", p.output.Err())
	require.True(p.t, strings.HasPrefix(p.output.Text(), prefix), "%q: want %q", p.output.Text(), prefix)
	return p.output.Text()
}

// probe returns the status of a probe.
func (p *pod) probe(path string) int {
	p.t.Helper()
	response, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	require.NoError(p.t, response.Body.Close())
	return response.StatusCode
}

func (p *pod) awaitReady() {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.probe("/readyz") == http.StatusOK }, time.Minute, 10*time.Millisecond)
}

// terminate stops the process as Kubernetes does, and waits for its end.
func (p *pod) terminate() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	for p.output.Scan() {
		p.t.Log(p.output.Text())
	}
	require.NoError(p.t, p.cmd.Wait())
}

func TestNewPodIsReadyWhileOldLeadsAndLeadsWhenOldHasResigned(t *testing.T) {
	ensemble, binary := zktest.Start(t, nil), build(t, "rollout")
	servers := strings.Join(ensemble.Addrs(), ",")
	old := startPod(t, binary, servers)
	old.await("leads")
	require.Equal(t, http.StatusOK, old.probe("/leading"))

	next := startPod(t, binary, servers)
	next.awaitReady()
	require.NoError(t, ensemble.Await(t.Context(), "/election/rollout", 2))
	require.Equal(t, http.StatusServiceUnavailable, next.probe("/leading"), "a readiness probe of this would never succeed")
	require.Equal(t, http.StatusOK, old.probe("/leading"))

	old.terminate() // the Deployment does so now that the new pod is ready
	names, err := ensemble.Children("/election/rollout")
	require.NoError(t, err)
	require.Len(t, names, 1, "it resigned before it exited: the new pod does not wait for a session to expire")
	next.await("leads")
	require.Equal(t, http.StatusOK, next.probe("/leading"))
	next.terminate()
}
