// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/filefence"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// A guardSpec names a guard and the place of its state, so that another process can open it.
type guardSpec struct {
	Kind  string // a key of openers
	Place string
}

// opened is an open guard.
type opened struct {
	fencetest.Guarded
	close func() error
}

var openers = map[string]func(place string, within func()) (opened, error){
	"files":    openFiles,
	"sqlite":   openSQL("sqlite", sqlfence.SQLite),
	"postgres": openSQL("pgx", sqlfence.PostgreSQL),
	"mariadb":  openSQL("mysql", sqlfence.MySQL),
	"redis":    openRedis,
	"s3":       openObjects,
	"http":     openHTTP,
}

// open opens the guard. within, if not nil, is called between the check and the write, by guards that take these steps
// separately.
func (d guardSpec) open(within func()) (opened, error) {
	if within == nil {
		within = func() {}
	}
	open, known := openers[d.Kind]
	if !known {
		return opened{}, fmt.Errorf("unknown guard %q", d.Kind)
	}
	o, err := open(d.Place, within)
	if err != nil {
		return opened{}, fmt.Errorf("open %s at %s: %w", d.Kind, d.Place, err)
	}
	return o, nil
}

func openSQL(driver string, dialect sqlfence.Dialect) func(string, func()) (opened, error) {
	return func(dsn string, within func()) (opened, error) {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return opened{}, err
		}
		guard, err := sqlfence.New(db, dialect, nil)
		if err != nil {
			return opened{}, errors.Join(err, db.Close())
		}
		return opened{retrying{&entries{db: db, dialect: dialect, guard: guard, hook: within}}, db.Close}, nil
	}
}

// files is a folder with one file for each value, and a fence in a subfolder.
type files struct {
	guard  *filefence.Guard
	dir    string
	within func()
}

func openFiles(dir string, within func()) (opened, error) {
	state := filepath.Join(dir, "fence")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return opened{}, err
	}
	guard, err := filefence.New(state, nil)
	if err != nil {
		return opened{}, err
	}
	return opened{&files{guard, dir, within}, func() error { return nil }}, nil
}

func (f *files) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return f.guard.Do(ctx, resource, token, func(*os.File) error {
		f.within()
		return os.WriteFile(filepath.Join(f.dir, resource), []byte(value), 0o600)
	})
}

func (f *files) Value(_ context.Context, resource string) (string, error) {
	value, err := os.ReadFile(filepath.Join(f.dir, resource))
	return string(value), err
}

func (f *files) Reset(ctx context.Context, resource string) error {
	return f.guard.Reset(ctx, resource, 0)
}

func openRedis(addr string, _ func()) (opened, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	guard, err := redisfence.New(evalOf(client), nil)
	if err != nil {
		return opened{}, errors.Join(err, client.Close())
	}
	return opened{registers{guard, evalOf(client), "value:"}, client.Close}, nil
}

func openObjects(at string, _ func()) (opened, error) {
	var p place
	if err := json.Unmarshal([]byte(at), &p); err != nil {
		return opened{}, err
	}
	guard, err := objectfence.New(hashed{p.open()}, nil)
	return opened{objects{guard}, func() error { return nil }}, err
}

// A service stores values in memory, each behind a gate, and accepts writes over HTTP.
type service struct {
	mu     sync.Mutex // makes check and write one step; guards what follows
	gates  map[string]*fencing.Gate
	values map[string]string
}

// serve starts a service and returns its URL.
func serve(t *testing.T) (url string) {
	t.Helper()
	s := &service{gates: map[string]*fencing.Gate{}, values: map[string]string{}}
	mux := http.NewServeMux()
	mux.Handle("PUT /{resource}", httpfence.RequireToken(http.HandlerFunc(s.put)))
	mux.HandleFunc("GET /{resource}", s.get)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func (s *service) put(w http.ResponseWriter, r *http.Request) {
	value, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resource := r.PathValue("resource")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[resource] == nil {
		s.gates[resource] = new(fencing.Gate)
	}
	if err := s.gates[resource].Admit(fencing.TokenFromContext(r.Context())); err != nil {
		httpfence.Refuse(w, err)
		return
	}
	s.values[resource] = string(value)
}

func (s *service) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(w, s.values[r.PathValue("resource")])
}

// caller is a client of a service.
type caller struct {
	url  string
	http *http.Client
}

func openHTTP(address string, _ func()) (opened, error) {
	transport := &http.Transport{}
	c := &caller{address, &http.Client{Transport: &httpfence.Transport{Base: transport, RefusalIsError: true}}}
	return opened{c, func() error { transport.CloseIdleConnections(); return nil }}, nil
}

func (c *caller) do(ctx context.Context, method, resource, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+"/"+url.PathEscape(resource), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, request.URL, response.Status)
	}
	return string(text), err
}

func (c *caller) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	_, err := c.do(fencing.WithToken(ctx, token), http.MethodPut, resource, value)
	return err
}

func (c *caller) Value(ctx context.Context, resource string) (string, error) {
	return c.do(ctx, http.MethodGet, resource, "")
}

func (c *caller) Reset(context.Context, string) error { return errors.ErrUnsupported }
