// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/service/client"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// replicas returns a function that starts a replica of a new service, and returns its URL and a function that stops it. The
// principals team and ops, an administrator, have tokens of their names.
func replicas(t *testing.T) func() (url string, stop func()) {
	t.Helper()
	e := zktest.Start(t, nil)
	hash := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])
	}
	folder := t.TempDir()
	principals, keys := filepath.Join(folder, "principals.json"), filepath.Join(folder, "keys")
	require.NoError(t, os.WriteFile(principals, fmt.Appendf(nil, `{"principals": [
		{"name": "team", "tokens": [%q], "namespaces": ["team"], "roles": ["client"]},
		{"name": "ops", "tokens": [%q], "namespaces": ["*"], "roles": ["admin"]}]}`, hash("team"), hash("ops")), 0o600))
	require.NoError(t, os.WriteFile(keys, []byte(strings.Repeat("c0", 32)), 0o600))
	return func() (string, func()) {
		started, ended := make(chan string, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- service.Run(ctx, service.Config{
				Listen: "127.0.0.1:0", Servers: e.Addrs(), Principals: principals, TokenKeys: keys,
				Logger: slog.New(slog.DiscardHandler), Started: func(url string) { started <- url },
			})
		}()
		stop := sync.OnceFunc(func() {
			cancel()
			require.NoError(t, <-ended)
		})
		t.Cleanup(stop)
		return <-started, stop
	}
}

var discard = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)

// newClient returns a client of the principal team. opts may be nil.
func newClient(t *testing.T, urls string, opts *client.Options) *client.Client {
	t.Helper()
	if opts == nil {
		opts = &client.Options{}
	}
	if opts.Bearer == nil {
		opts.Bearer = bearer("team")
	}
	c, err := client.New(urls, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // holds that a test has lost return their loss
	return c
}

func bearer(token string) func() (string, error) {
	return func() (string, error) { return token, nil }
}

// A fault is what a proxy does to a request.
type fault int

const (
	none fault = iota
	loseAnswer
	hang
	refuse // with 503
	reject // with 401
)

// A proxy forwards requests to a replica, and breaks those that its function chooses.
type proxy struct {
	url string

	mu     sync.Mutex // guards what follows
	choose func(operation string) fault
	bodies map[string][]string // of the requests, by operation
}

func newProxy(t *testing.T, target string, choose func(operation string) fault) *proxy {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.ErrorLog = discard
	p := &proxy{choose: choose, bodies: map[string][]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a broken request is one without a body
		r.Body = io.NopCloser(bytes.NewReader(body))
		operation := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch p.next(operation, string(body)) {
		case none:
			forward.ServeHTTP(w, r)
		case loseAnswer:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case hang:
			<-r.Context().Done()
		case refuse:
			w.WriteHeader(http.StatusServiceUnavailable)
		case reject:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"status": 401, "code": "UNAUTHENTICATED", "title": "rotated"}`)
		}
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *proxy) next(operation, body string) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies[operation] = append(p.bodies[operation], body)
	return p.choose(operation)
}

// set replaces the function that chooses faults.
func (p *proxy) set(choose func(operation string) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = choose
}

func (p *proxy) requests(operation string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.bodies[operation]...)
}

func always(f fault) func(string) fault { return func(string) fault { return f } }

// post sends a request as a principal, and returns status and answer.
func post(t *testing.T, who, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+who)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, string(answer)
}

// awaitQueue waits until a lock has this many waiters.
func awaitQueue(t *testing.T, url string, waiters int) {
	t.Helper()
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/locks/team/orders", http.NoBody)
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer team")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		answer, _ := io.ReadAll(res.Body)
		return res.Body.Close() == nil && strings.Contains(string(answer), fmt.Sprintf(`"queueLength":%d`, waiters))
	}, time.Minute, 5*time.Millisecond)
}
