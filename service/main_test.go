// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The principals of the tests: each has the token of its name.
const principals = `{"principals": [
	{"name": "team", "tokens": [%q], "subjects": ["CN=team"], "namespaces": ["team"], "roles": ["client"]},
	{"name": "sales", "tokens": [%q], "namespaces": ["sales"], "roles": ["client"]},
	{"name": "ops", "tokens": [%q], "namespaces": ["*"], "roles": ["admin"]},
	{"name": "app", "tokens": [%q], "namespaces": ["default"], "roles": ["client"]}
]}`

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// A replica is a running service.
type replica struct {
	t      testing.TB
	url    string
	client *http.Client
	stop   func() error // stops it in order, once
}

// credentials writes the files that all replicas of a test share.
func credentials(t *testing.T) (principalsFile, keysFile string) {
	t.Helper()
	folder := t.TempDir()
	principalsFile, keysFile = filepath.Join(folder, "principals.json"), filepath.Join(folder, "keys")
	content := fmt.Sprintf(principals, hash("team"), hash("sales"), hash("ops"), hash("app"))
	require.NoError(t, os.WriteFile(principalsFile, []byte(content), 0o600))
	require.NoError(t, os.WriteFile(keysFile, []byte(strings.Repeat("c0", 32)), 0o600))
	return principalsFile, keysFile
}

// start runs a replica with a configuration, on a free port.
func start(tb testing.TB, c service.Config) *replica {
	tb.Helper()
	started, ended := make(chan string, 1), make(chan error, 1)
	c.Listen, c.Started = "127.0.0.1:0", func(url string) { started <- url }
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	go func() { ended <- service.Run(ctx, c) }()
	r := &replica{t: tb, client: &http.Client{Transport: &http.Transport{}}}
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		r.client.CloseIdleConnections()
		return <-ended
	}
	tb.Cleanup(func() { require.NoError(tb, r.stop()) })
	select {
	case r.url = <-started:
	case err := <-ended:
		stopped = true
		require.NoError(tb, err)
	}
	return r
}

// patience bounds each wait for what must happen. No test measures it.
const patience = time.Minute

// ownAddress returns an address for the first server of an ensemble. Another test can get the port of a killed server, and answer the
// clients of that: on Linux, the servers have an address of their own.
func ownAddress() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1:0"
	}
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// ensemble starts ZooKeeper servers and a function that starts replicas over them. Without a quorum, a replica answers after
// its session timeout; otherwise a test must not depend on it. Zero means the default.
func ensemble(t *testing.T, servers int, timeout time.Duration) (*zktest.Ensemble, func() *replica) {
	t.Helper()
	e := zktest.Start(t, &zktest.Options{Servers: servers, Addr: ownAddress()})
	principalsFile, keysFile := credentials(t)
	return e, func() *replica {
		return start(t, service.Config{
			Servers: e.Addrs(), SessionTimeout: timeout, Principals: principalsFile, TokenKeys: keysFile,
		})
	}
}

// A response is an answer that was read.
type response struct {
	t      testing.TB
	status int
	header http.Header
	body   map[string]any
}

func (r *response) text(field string) string {
	text, _ := r.body[field].(string)
	return text
}

func (r *response) token() fencing.Token {
	r.t.Helper()
	token, err := fencing.ParseToken(r.text("fencingToken"))
	require.NoError(r.t, err)
	return token
}

func (r *response) is(status int, code string) *response {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%v", r.body)
	require.Equal(r.t, code, r.text("code"))
	return r
}

// send sends a request with the token of a principal.
func (r *replica) send(who, method, path, body string) *response {
	r.t.Helper()
	answer, err := r.try(r.t.Context(), who, method, path, body)
	require.NoError(r.t, err)
	return answer
}

func (r *replica) post(who, path, body string) *response {
	r.t.Helper()
	return r.send(who, http.MethodPost, path, body)
}

func (r *replica) try(ctx context.Context, who, method, path, body string) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	read, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	answer := &response{t: r.t, status: res.StatusCode, header: res.Header}
	if strings.Contains(res.Header.Get("Content-Type"), "json") {
		return answer, json.Unmarshal(bytes.TrimSpace(read), &answer.body)
	}
	return answer, nil
}

const orders = "/v1/locks/team/orders"

func request(owner, id, fields string) string {
	return fmt.Sprintf(`{"ownerId": %q, "requestId": %q%s}`, owner, id, fields)
}

func proof(granted *response) string {
	return fmt.Sprintf(`{"ownerId": %q, "lockToken": %q}`, granted.text("ownerId"), granted.text("lockToken"))
}
