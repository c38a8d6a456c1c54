// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/internal/api"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
	"github.com/lockkeeper/lockkeeper/service/internal/holds"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
	"github.com/lockkeeper/lockkeeper/service/internal/locktoken"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
	"github.com/lockkeeper/lockkeeper/service/internal/reload"
)

var limits = limit.Limits{Rate: 1e6, Burst: 1e6, Waiters: 3, KeyBytes: 512, BodyBytes: 64 << 10, MaxTTL: time.Hour}

// The principals of the tests: each has the token of its name.
const principals = `{"principals": [
	{"name": "client", "tokens": [%q], "namespaces": ["own"], "roles": ["client"]},
	{"name": "admin", "tokens": [%q], "namespaces": ["own"], "roles": ["admin"]},
	{"name": "both", "tokens": [%q], "namespaces": ["*"], "roles": ["client", "admin"]},
	{"name": "resident", "tokens": [%q], "namespaces": ["default"], "roles": ["client"]},
	{"name": "warden", "tokens": [%q], "namespaces": ["default"], "roles": ["admin"]},
	{"name": "slow", "tokens": [%q], "namespaces": ["own"], "roles": ["client"], "limits": {"requestsPerSecond": 0.001, "burst": 1}}
]}`

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// A fixture is the API on a test server.
type fixture struct {
	t        testing.TB
	locks    *scripted
	api      *api.API
	server   *httptest.Server
	draining chan struct{}
	audit    *buffer
	log      *buffer
	actions  recorded
	past     remembered
	names    []string // of the nodes below the root
	ready    error

	principals *reload.File[principal.Directory]
	file       string // of the principals
}

// A buffer is safe for concurrent use.
type buffer struct {
	mu  sync.Mutex
	b   bytes.Buffer // guarded by mu
	err error        // guarded by mu: of each Write

	blocked chan struct{} // guarded by mu: if not nil, each Write waits until it is closed
}

func (b *buffer) block() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocked = make(chan struct{})
}

func (b *buffer) unblock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocked != nil {
		close(b.blocked)
		b.blocked = nil
	}
}

func (b *buffer) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	blocked := b.blocked
	b.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	return b.b.Write(p)
}

// Close ends nothing.
func (b *buffer) Close() error { return nil }

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newFixture(tb testing.TB, locks *scripted) *fixture {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "principals")
	require.NoError(tb, os.WriteFile(file, fmt.Appendf(nil, principals, hash("client"), hash("admin"), hash("both"), hash("resident"), hash("warden"), hash("slow")), 0o600))
	directory, err := reload.Open(file, func(content []byte) (*principal.Directory, error) { return principal.Parse(content, limits) })
	require.NoError(tb, err)
	keys, err := locktoken.ParseKeys([]byte(strings.Repeat("5a", 32)))
	require.NoError(tb, err)
	f := &fixture{t: tb, locks: locks, principals: directory, file: file, draining: make(chan struct{}), audit: &buffer{}, log: &buffer{}}
	log := audit.New(f.audit)
	tb.Cleanup(func() {
		f.audit.unblock()
		require.NoError(tb, log.Close())
	})
	f.api = api.New(api.Options{
		Locks: locks, Actions: &f.actions, History: &f.past, Quota: room{}, Root: "/locks", Principals: directory, Keys: reload.Fixed(keys), Audit: log,
		Holds:  holds.New(slog.New(slog.DiscardHandler), func(time.Duration, bool) {}),
		Logger: slog.New(slog.NewJSONHandler(f.log, nil)), Registry: prometheus.NewRegistry(),
		Namespaces: func(context.Context) ([]string, error) { return f.names, nil },
		Ready:      func() error { return f.ready }, Draining: f.draining, Version: "test",
	})
	f.serve()
	return f
}

// serve starts a server that is reached through pipes: a socket would stop the clock of a test with fake time.
func (f *fixture) serve() {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	f.server = httptest.NewUnstartedServer(f.api)
	require.NoError(f.t, f.server.Listener.Close())
	f.server.Listener = l
	f.server.Start()
	f.server.Client().Transport = &http.Transport{DialContext: l.dial}
	f.t.Cleanup(func() {
		f.server.Client().CloseIdleConnections()
		f.server.Close()
	})
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once // closes closed
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the next connection.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address that no client dials.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// A response is an answer that was read.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (r *response) json(tb testing.TB) map[string]any {
	tb.Helper()
	var fields map[string]any
	require.NoError(tb, json.Unmarshal(r.body, &fields), "%s", r.body)
	return fields
}

func (r *response) code(tb testing.TB) string {
	tb.Helper()
	code, _ := r.json(tb)["code"].(string)
	return code
}

// send sends a request with the token of a principal, and checks that the answer fits the OpenAPI document.
func (f *fixture) send(who, method, path, body string) *response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+path, strings.NewReader(body))
	require.NoError(f.t, err)
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := f.server.Client().Do(req)
	require.NoError(f.t, err)
	read, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, res.Body.Close())
	r := &response{res.StatusCode, res.Header, read}
	if res.StatusCode >= 400 {
		p := r.json(f.t)
		require.Equal(f.t, "application/problem+json", res.Header.Get("Content-Type"))
		require.EqualValues(f.t, res.StatusCode, p["status"])
		require.Equal(f.t, "urn:lockkeeper:problem:"+r.code(f.t), p["type"])
		require.NotEmpty(f.t, p["error"])
	}
	f.fitsDocument(method, path, r)
	return r
}

const (
	acquirePath = "/v1/locks/own/orders/acquire"
	acquireBody = `{"ownerId": "w1", "requestId": "r1"}`
)

var held = lease.Contender{
	Contender: recipes.Contender{Name: "front", Token: 41, Owner: "w0", Kind: recipes.KindLease, Held: true, TTL: time.Minute},
	Lease:     &lease.Lease{Metadata: map[string]string{"value": "10.0.0.1:80"}},
}

var errZooKeeper = errors.New("zk: could not reach 10.1.2.3:2181")
