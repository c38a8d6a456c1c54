// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// service is what the package's documentation advises: it requires a token, hands it to a store that checks, and answers
// what that says.
func service(store *objectfence.Guard) http.Handler {
	name := func(r *http.Request) string { return r.URL.Query().Get("resource") }
	answer := func(w http.ResponseWriter, text []byte, err error) {
		switch {
		case httpfence.Refuse(w, err):
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_, _ = w.Write(text)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /", httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = store.Put(r.Context(), name(r), httpfence.Token(r.Context()), text)
		}
		answer(w, nil, err)
	})))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		text, err := store.Get(r.Context(), name(r))
		if errors.Is(err, objectfence.ErrNotFound) {
			err = nil
		}
		answer(w, text, err)
	})
	mux.HandleFunc("DELETE /fence", func(w http.ResponseWriter, r *http.Request) {
		answer(w, nil, store.Reset(r.Context(), name(r), 0))
	})
	return mux
}

// A caller is a client of the service.
type caller struct {
	url    string
	client *http.Client
}

func (c *caller) do(ctx context.Context, method, at, resource, body string) (string, error) {
	address := c.url + at + "?" + url.Values{"resource": {resource}}.Encode()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusPreconditionRequired:
		return "", fmt.Errorf("%w: %s", fencing.ErrInvalid, text) // zero is sent as none
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), nil
}

func (c *caller) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	_, err := c.do(httpfence.WithToken(ctx, token), http.MethodPut, "/", resource, value)
	return err
}

func (c *caller) Value(ctx context.Context, resource string) (string, error) {
	return c.do(ctx, http.MethodGet, "/", resource, "")
}

func (c *caller) Reset(ctx context.Context, resource string) error {
	_, err := c.do(ctx, http.MethodDelete, "/fence", resource, "")
	return err
}

func TestServiceBeforeAStoreThatChecksPassesTheSuite(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		store := &objectfence.Memory{}
		return fencetest.Subject{Open: func(t *testing.T) fencetest.Guarded {
			t.Helper()
			guard, err := objectfence.New(store)
			require.NoError(t, err)
			server := httptest.NewServer(service(guard))
			t.Cleanup(server.Close)
			base := &http.Transport{}
			t.Cleanup(base.CloseIdleConnections)
			return &caller{server.URL, &http.Client{Transport: &httpfence.Transport{Base: base, StaleIsError: true}}}
		}}
	})
}
