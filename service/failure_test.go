// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestReplicaWithoutQuorumAnswersThatTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	e, replicas := ensemble(t, 3, 4*time.Second)
	r := replicas()
	held := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	readiness := func(status int) {
		require.Eventually(t, func() bool { return r.send("", http.MethodGet, "/readyz", "").status == status },
			patience, 20*time.Millisecond)
	}
	readiness(http.StatusOK)
	require.NoError(t, e.Server(2).Kill(t.Context()))
	require.NoError(t, e.Server(3).Kill(t.Context()))
	unknown := r.post("team", orders+"/renew", proof(held)).is(503, "UNAVAILABLE")
	require.NotEmpty(t, unknown.header.Get("Retry-After"))
	require.NotContains(t, fmt.Sprint(unknown.body), "127.", "an answer shows nothing of ZooKeeper")
	r.post("team", "/v1/locks/team/other/acquire", request("w1", "r2", "")).is(503, "UNAVAILABLE")
	readiness(http.StatusServiceUnavailable)
	require.Equal(t, http.StatusOK, r.send("", http.MethodGet, "/healthz", "").status)

	require.NoError(t, e.Server(2).Start(t.Context()))
	require.NoError(t, e.Server(3).Start(t.Context()))
	readiness(http.StatusOK)
	again := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	require.Equal(t, held.token(), again.token(), "the lease outlives the outage")
}

func dial(t *testing.T, r *replica) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func development(t *testing.T) *replica {
	t.Helper()
	return start(t, service.Config{Dev: true})
}

func TestConnectionThatNeverSendsItsHeadIsClosed(t *testing.T) {
	t.Parallel()
	conn := dial(t, development(t))
	_, err := io.WriteString(conn, "POST /v1/locks/team/orders/acquire HTTP/1.1\r\nHost: localhost\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	require.NoError(t, err, "the service closes the connection")
}

func TestBodyThatNeverArrivesIsGivenUp(t *testing.T) {
	t.Parallel()
	conn := dial(t, development(t))
	_, err := io.WriteString(conn, "POST /v1/locks/team/orders/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestBodyOfOneGigabyteIsRefusedUnread(t *testing.T) {
	t.Parallel()
	r := development(t)
	for _, length := range []int64{1 << 30, -1} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+orders+"/acquire", io.LimitReader(zeros{}, 1<<30))
		require.NoError(t, err)
		req.ContentLength = length
		req.Header.Set("Content-Type", "application/json")
		res, err := r.client.Do(req)
		if err != nil {
			continue // the service closed the connection while the client was still writing
		}
		require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
	r.post("", orders+"/acquire", request("w1", "r1", "")).is(200, "")
}

// The service gives a body 10 s to arrive. That must not end a request whose body has arrived, nor a stream.
func TestSilentConnectionMayWait(t *testing.T) {
	t.Parallel()
	r := development(t)
	next := events(t, r)
	r.post("", orders+"/acquire", request("w1", "r1", `, "ttlMillis": 11000`)).is(200, "")
	next(`"ownerId":"w1"`)
	r.post("", orders+"/acquire", request("w2", "r2", `, "wait": true`)).is(200, "")
	next(`"ownerId":"w2"`)
}

func TestWaiterWhoseConnectionEndsLeavesTheQueue(t *testing.T) {
	t.Parallel()
	r := development(t)
	r.post("", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	length := func(want float64) func() bool {
		return func() bool { return r.send("", http.MethodGet, orders, "").body["queueLength"] == want }
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.try(ctx, "", http.MethodPost, orders+"/acquire", request("w2", "r2", `, "wait": true`))
		ended <- err
	}()
	require.Eventually(t, length(1), patience, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, length(0), patience, 10*time.Millisecond)
}

// events opens a stream of the lock's events, and returns a function that waits for one that contains a text. With an
// empty text it waits for the orderly end of the stream.
func events(t *testing.T, r *replica) func(text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+orders+"/events", nil)
	require.NoError(t, err)
	res, err := r.client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	scanner := bufio.NewScanner(res.Body)
	return func(text string) {
		t.Helper()
		for scanner.Scan() {
			require.NotContains(t, scanner.Text(), "problem")
			if data, ok := strings.CutPrefix(scanner.Text(), "data: "); ok && text != "" && strings.Contains(data, text) {
				return
			}
		}
		require.NoError(t, scanner.Err())
		require.Empty(t, text, "the stream has ended")
	}
}

func TestStreamFollowsTheLockAndEndsWithItsReplica(t *testing.T) {
	t.Parallel()
	r := development(t)
	next := events(t, r)
	next(`"locked":false`)
	held := r.post("", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	next(`"ownerId":"w1"`)
	r.post("", orders+"/release", proof(held)).is(200, "")
	next(`"locked":false`)
	require.NoError(t, r.stop())
	next("")
}

func TestConfigurationThatIsNotSafeIsRefused(t *testing.T) {
	principalsFile, keysFile := credentials(t)
	for want, c := range map[string]service.Config{
		"loopback":            {Dev: true, Listen: "0.0.0.0:0"},
		"development mode":    {Dev: true, Principals: principalsFile},
		"not on a loopback":   {Dev: true, Servers: []string{"127.0.0.1:2181,192.0.2.1:2181"}},
		"valid port":          {Dev: true, Servers: []string{"127.0.0.1:http"}},
		"servers":             {Principals: principalsFile, TokenKeys: keysFile},
		"without credentials": {Servers: []string{"127.0.0.1:1"}, TokenKeys: keysFile},
		"all replicas":        {Servers: []string{"127.0.0.1:1"}, Principals: principalsFile},
		"key are needed":      {Dev: true, TLSCert: "x"},
		"need TLS":            {Dev: true, ClientCA: "x"},
		"longest TTL":         {Dev: true, MaxTTL: 2 * time.Hour},
		"keys":                {Dev: true, Keys: 100_001},
		"root":                {Dev: true, Root: "locks"},
		"no such file":        {Servers: []string{"127.0.0.1:1"}, Principals: principalsFile + "x", TokenKeys: keysFile},
	} {
		require.ErrorContains(t, service.Run(t.Context(), c), want)
	}
}

func TestChangedPrincipalsAreAdmittedWithoutRestart(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, nil)
	principalsFile, keysFile := credentials(t)
	r := start(t, service.Config{Servers: e.Addrs(), Principals: principalsFile, TokenKeys: keysFile})
	r.post("rotated", orders+"/acquire", request("w1", "r1", "")).is(401, "UNAUTHENTICATED")
	content := fmt.Sprintf(principals, hash("rotated"), hash("sales"), hash("ops"), hash("app"))
	require.NoError(t, os.WriteFile(principalsFile, []byte(content), 0o600))
	require.Eventually(t, func() bool {
		return r.post("rotated", orders+"/acquire", request("w1", "r1", "")).status == http.StatusOK
	}, patience, 20*time.Millisecond)
	r.post("team", orders+"/acquire", request("w1", "r1", "")).is(401, "UNAUTHENTICATED")
}

func TestLeaseOutlivesRotationOfTokenKeys(t *testing.T) {
	t.Parallel()
	principalsFile, keysFile := credentials(t)
	r := start(t, service.Config{Servers: zktest.Start(t, nil).Addrs(), Principals: principalsFile, TokenKeys: keysFile})
	old, next := strings.Repeat("c0", 32), strings.Repeat("d1", 32)
	held := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	signs := func(keys ...string) {
		require.NoError(t, os.WriteFile(keysFile, []byte(strings.Join(keys, "\n")), 0o600))
	}
	signs(next, old)
	var renewed *response
	require.Eventually(t, func() bool {
		renewed = r.post("team", orders+"/renew", proof(held)).is(200, "")
		return renewed.text("lockToken") != held.text("lockToken")
	}, patience, 20*time.Millisecond, "a renewal returns a token of the new key")
	signs(next)
	require.Eventually(t, func() bool {
		return r.post("team", orders+"/renew", proof(held)).status == http.StatusForbidden
	}, patience, 20*time.Millisecond)
	r.post("team", orders+"/release", proof(held)).is(403, "NOT_LOCK_OWNER")
	r.post("team", orders+"/renew", proof(renewed)).is(200, "")
	r.post("team", orders+"/release", proof(renewed)).is(200, "")
}

func TestRunEndsInOrderBeforeItServes(t *testing.T) {
	principalsFile, keysFile := credentials(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := service.Run(ctx, service.Config{
		Listen: "127.0.0.1:0", Servers: []string{"127.0.0.1:1"}, Principals: principalsFile, TokenKeys: keysFile,
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestDevelopmentModeHasItsLocksOnServersOfThisMachine(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, nil)
	r := start(t, service.Config{Dev: true, Servers: e.Addrs()})
	r.post("", "/v1/locks/team/orders/acquire", request("w1", "r1", "")).is(200, "")
	namespaces, err := e.Children("/lockkeeper")
	require.NoError(t, err)
	require.Contains(t, namespaces, "team")
}
