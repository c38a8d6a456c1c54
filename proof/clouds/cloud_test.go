// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// A cloud is a cloud service with its HTTP interface.
type cloud struct {
	name   string
	serve  func(*objects) http.Handler
	store  func(t *testing.T, url, bucket string, client *http.Client) objectfence.Store
	source string // the file that contains the store
}

var clouds = []cloud{
	{"Google", serveGCS, openGCS, "gcs_test.go"},
	{"Azure", serveAzure, openAzure, "azure_test.go"},
}

// The one bucket of a server.
const bucket = "ledgers"

// An objects is the content of a server's one bucket. Versions count from 1 and do not recur.
type objects struct {
	unconditional bool // it ignores conditions

	mu       sync.Mutex
	bodies   map[string][]byte // guarded by mu
	versions map[string]int64  // guarded by mu
	latest   int64             // guarded by mu
}

func newObjects() *objects {
	return &objects{bodies: map[string][]byte{}, versions: map[string]int64{}}
}

func (o *objects) read(key string) (body []byte, version int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bodies[key], o.versions[key]
}

// write replaces the object if holds reports that its version, 0 if there is none, meets the condition of the write.
func (o *objects) write(key string, body []byte, holds func(version int64) bool) (version int64, written bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.unconditional && !holds(o.versions[key]) {
		return 0, false
	}
	o.latest++
	o.bodies[key], o.versions[key] = body, o.latest
	return o.latest, true
}

// serving returns the store of a cloud, with its objects on a server that runs until the test ends.
func (c cloud) serving(t *testing.T, o *objects) objectfence.Store {
	t.Helper()
	return c.store(t, c.server(t, o), bucket, plain(t))
}

func (c cloud) server(t *testing.T, o *objects) (url string) {
	t.Helper()
	server := httptest.NewServer(c.serve(o))
	t.Cleanup(server.Close)
	return server.URL
}

func plain(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// hashed names objects by a hash: neither cloud accepts every name, such as "..".
type hashed struct{ objectfence.Store }

func hash(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

func (h hashed) Get(ctx context.Context, key string) (objectfence.Object, error) {
	return h.Store.Get(ctx, hash(key))
}

func (h hashed) Put(ctx context.Context, key string, body []byte, replaces string) error {
	return h.Store.Put(ctx, hash(key), body, replaces)
}

// guarded adapts a guard to the suite.
type guarded struct{ *objectfence.Guard }

func (g guarded) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return g.Put(ctx, resource, token, []byte(value))
}

func (g guarded) Value(ctx context.Context, resource string) (string, error) {
	body, err := g.Get(ctx, resource)
	if errors.Is(err, objectfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (g guarded) Reset(ctx context.Context, resource string) error {
	return g.Guard.Reset(ctx, resource, 0)
}

func TestGuardOfCloudPassesSuite(t *testing.T) {
	for _, c := range clouds {
		t.Run(c.name, func(t *testing.T) {
			fencetest.Run(t, func(t *testing.T) fencetest.Subject {
				t.Helper()
				url := c.server(t, newObjects())
				open := func(t *testing.T, history string) fencetest.Guarded {
					t.Helper()
					guard, err := objectfence.New(hashed{c.store(t, url, bucket, plain(t))}, &objectfence.Options{History: history})
					require.NoError(t, err)
					return guarded{guard}
				}
				return fencetest.Subject{
					Open:        func(t *testing.T) fencetest.Guarded { t.Helper(); return open(t, "") },
					OpenHistory: open,
					Uncertain:   func(err error) bool { return errors.Is(err, objectfence.ErrUncertain) },
				}
			})
		})
	}
}

func TestConditionsAreInRequests(t *testing.T) {
	for _, c := range clouds {
		o := newObjects()
		require.NoError(t, objectfence.Probe(t.Context(), c.serving(t, o), "probe"), c.name)
		o.unconditional = true
		require.ErrorIs(t, objectfence.Probe(t.Context(), c.serving(t, o), "probe"), objectfence.ErrUnconditional, c.name)
	}
}

func TestMissingObjectIsNotReplaced(t *testing.T) {
	for _, c := range clouds {
		o := newObjects()
		store := c.serving(t, o)
		_, err := store.Get(t.Context(), "ledger")
		require.ErrorIs(t, err, objectfence.ErrNotFound, c.name)
		require.NoError(t, store.Put(t.Context(), "other", []byte("other"), ""), c.name)
		other, err := store.Get(t.Context(), "other")
		require.NoError(t, err, c.name)
		require.ErrorIs(t, store.Put(t.Context(), "ledger", []byte("body"), other.Version), objectfence.ErrPrecondition, c.name)
		_, err = store.Get(t.Context(), "ledger")
		require.ErrorIs(t, err, objectfence.ErrNotFound, c.name)
	}
}

func TestSameBodyWrittenTwiceHasTwoVersions(t *testing.T) {
	for _, c := range clouds {
		store := c.serving(t, newObjects())
		require.NoError(t, store.Put(t.Context(), "ledger", []byte("same"), ""))
		first, err := store.Get(t.Context(), "ledger")
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), "ledger", []byte("same"), first.Version))
		second, err := store.Get(t.Context(), "ledger")
		require.NoError(t, err)
		require.NotEqual(t, first.Version, second.Version)
		require.ErrorIs(t, store.Put(t.Context(), "ledger", []byte("stale"), first.Version), objectfence.ErrPrecondition)
	}
}

// A lossy transport sends requests, and loses the responses to those that write.
type lossy struct {
	base  http.RoundTripper
	again func() // called when a write is resent
	sent  int
}

func (d *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.base.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet {
		return response, err
	}
	if d.sent++; d.sent > 1 {
		d.again()
	}
	lost := &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}
	return nil, errors.Join(lost, response.Body.Close())
}

// A client that resends a write would be refused because of its own write, and take that for the write of another client.
func TestWriteIsSentOnce(t *testing.T) {
	for _, c := range clouds {
		ctx, cancel := context.WithCancel(t.Context())
		transport := &lossy{base: plain(t).Transport, again: cancel}
		store := c.store(t, c.server(t, newObjects()), bucket, &http.Client{Transport: transport})
		err := store.Put(ctx, "ledger", []byte("body"), "")
		require.Equal(t, 1, transport.sent, c.name)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, c.name)
		require.NotErrorIs(t, err, objectfence.ErrPrecondition, c.name)

		guard, err := objectfence.New(store, nil)
		require.NoError(t, err)
		transport.again = func() {}
		require.NoError(t, guard.Put(t.Context(), "another", 7, []byte("seven")), "the object shows the write, %s", c.name)
	}
}

func TestMissingBucketIsNotFailedPrecondition(t *testing.T) {
	for _, c := range clouds {
		store := c.store(t, c.server(t, newObjects()), "missing", plain(t))
		for _, replaces := range []string{"", "1"} {
			err := store.Put(t.Context(), "ledger", []byte("body"), replaces)
			require.Error(t, err, c.name)
			require.NotErrorIs(t, err, objectfence.ErrPrecondition, c.name)
		}
	}
}

func TestDocumentationNamesTestedStores(t *testing.T) {
	doc, err := os.ReadFile("../../fencing/objectfence/doc.go")
	require.NoError(t, err)
	for _, c := range clouds {
		require.Contains(t, string(doc), "clouds/"+c.source, c.name)
	}
}
