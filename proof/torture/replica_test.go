// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// scriptedReplica returns a replica that is a shell script.
func scriptedReplica(t *testing.T, script string) *replica {
	t.Helper()
	r := &run{
		opts: &Options{Replicas: 1, Replica: []string{"sh", "-c", script}, Timeout: 4 * time.Second}, time: clock.Start(), result: &verdict.Result{},
	}
	var err error
	r.credentials, err = newCredentials()
	require.NoError(t, err)
	p := &replica{run: r, number: 1, address: "127.0.0.1:0"}
	r.replicas = []*replica{p}
	require.NoError(t, p.start())
	t.Cleanup(func() { require.NoError(t, r.cleanUp()) })
	return p
}

func TestUnexpectedEndOfReplicaIsAProblem(t *testing.T) {
	p := scriptedReplica(t, "echo panic: boom >&2; exit 2")
	require.ErrorContains(t, p.awaitServing(t.Context()), "replica 1 has ended before it served; its output:\n\tpanic: boom")
	require.NoError(t, p.end(t.Context(), syscall.SIGKILL))
	require.Len(t, p.run.result.Problems, 1)
	require.Contains(t, p.run.result.Problems[0], "replica 1 ended unexpectedly at ")
	require.Contains(t, p.run.result.Problems[0], "exit status 2; its output:\n\tpanic: boom")
}

func TestReplicaThatFailsToStopInOrderIsAProblem(t *testing.T) {
	for script, problems := range map[string]int{
		"trap 'exit 0' TERM; echo export LOCKKEEPER_URL=http://127.0.0.1:1; while :; do sleep 0.01; done": 0,
		"trap 'exit 5' TERM; echo export LOCKKEEPER_URL=http://127.0.0.1:1; while :; do sleep 0.01; done": 1,
	} {
		p := scriptedReplica(t, script)
		require.NoError(t, p.awaitServing(t.Context()))
		require.Equal(t, "127.0.0.1:1", p.address)
		require.NoError(t, p.run.stopReplicas(t.Context()))
		require.Len(t, p.run.result.Problems, problems, script)
	}
}

func TestKilledReplicaIsReplaced(t *testing.T) {
	p := scriptedReplica(t, "while :; do sleep 0.01; done")
	killed := p.current()
	undo, err := kinds["kill-replica"].inject(t.Context(), p.run, []string{"1"}, time.Second)
	require.NoError(t, err)
	<-killed.ended
	_, err = kinds["pause-replica"].inject(t.Context(), p.run, []string{"1"}, time.Second)
	require.ErrorIs(t, err, errBusy)
	require.NoError(t, undo(t.Context()))
	require.NotSame(t, killed, p.current())
	require.Empty(t, p.run.result.Problems)
}

func TestRevocationNamesTheHolderThatTheServiceReports(t *testing.T) {
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/free") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprint(w, `{"fencingToken": "17"}`)
	}))
	defer server.Close()
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, unused.Close())
	r := &run{}
	for i, address := range []string{unused.Addr().String(), server.Listener.Addr().String()} { // the first one is down
		r.replicas = append(r.replicas, &replica{run: r, number: i + 1, address: address})
	}
	_, err = revoke(t.Context(), r, []string{root + "/locks/a"}, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"GET /v1/locks/locks/a", "POST /v1/locks/locks/a/force-release"}, requests)
	_, err = revoke(t.Context(), r, []string{root + "/locks/free"}, 0)
	require.ErrorContains(t, err, "replica 2: status 404")
}
