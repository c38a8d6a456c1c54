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

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// service does what the package comment advises: it requires a token, passes it to a store that checks it, and answers with
// the store's result.
func service(objects objectfence.Store) http.Handler {
	guard := func(history string) *objectfence.Guard {
		guard, err := objectfence.New(objects, &objectfence.Options{History: history})
		if err != nil {
			panic(err) // RequireToken has checked the history
		}
		return guard
	}
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
			err = guard(fencing.HistoryFromContext(r.Context())).Put(r.Context(), name(r), fencing.TokenFromContext(r.Context()), text)
		}
		answer(w, nil, err)
	})))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		text, err := guard("").Get(r.Context(), name(r))
		if errors.Is(err, objectfence.ErrNotFound) {
			err = nil
		}
		answer(w, text, err)
	})
	mux.HandleFunc("PUT /reset", func(w http.ResponseWriter, r *http.Request) {
		history, err := io.ReadAll(r.Body)
		if err == nil {
			err = guard(string(history)).Reset(r.Context(), name(r), 0)
		}
		answer(w, nil, err)
	})
	return mux
}

// A caller is a client of the service.
type caller struct {
	url     string
	client  *http.Client
	history string
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
		return "", fmt.Errorf("%w: %s", fencing.ErrInvalid, text) // the zero token is not sent
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), nil
}

func (c *caller) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	ctx = fencing.WithHistory(fencing.WithToken(ctx, token), c.history)
	_, err := c.do(ctx, http.MethodPut, "/", resource, value)
	return err
}

func (c *caller) Value(ctx context.Context, resource string) (string, error) {
	return c.do(ctx, http.MethodGet, "/", resource, "")
}

func (c *caller) Reset(ctx context.Context, resource string) error {
	_, err := c.do(ctx, http.MethodPut, "/reset", resource, c.history)
	return err
}

func TestServiceWithGuardedStorePassesSuite(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		store := &objectfence.Memory{}
		open := func(t *testing.T, history string) fencetest.Guarded {
			t.Helper()
			server := httptest.NewServer(service(store))
			t.Cleanup(server.Close)
			base := &http.Transport{}
			t.Cleanup(base.CloseIdleConnections)
			return &caller{server.URL, &http.Client{Transport: &httpfence.Transport{Base: base, RefusalIsError: true}}, history}
		}
		return fencetest.Subject{
			Open:        func(t *testing.T) fencetest.Guarded { t.Helper(); return open(t, "") },
			OpenHistory: open,
		}
	})
}
