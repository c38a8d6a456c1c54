// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
)

// A call is one call of a guard.
type call struct {
	resource string
	token    fencing.Token
}

func path(r *http.Request) string { return r.URL.Path }

// served serves a request with these tokens in its headers. It returns the response, and the token that the handler behind
// the guard received, or zero if the handler did not run.
func served(t *testing.T, guard httpfence.Guard, tokens ...string) (*httptest.ResponseRecorder, fencing.Token) {
	t.Helper()
	var ran fencing.Token
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ran = fencing.TokenFromContext(r.Context()) })
	handler, err := httpfence.Protect(next, guard, path, nil)
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/ledger", nil)
	for _, token := range tokens {
		r.Header.Add("fencing-token", token)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w, ran
}

// answers returns a guard that returns err from every call, and records its calls in calls.
func answers(err error, calls *[]call) httpfence.Guard {
	return httpfence.GuardFunc(func(_ context.Context, resource string, token fencing.Token) error {
		*calls = append(*calls, call{resource, token})
		return err
	})
}

// document returns the problem document in w, and fails the test if there is none.
func document(t *testing.T, w *httptest.ResponseRecorder, status int) map[string]any {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body)
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var fields map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &fields))
	require.EqualValues(t, status, fields["status"])
	require.NotEmpty(t, fields["title"])
	return fields
}

func TestAdmittedRequestIsServedWithItsToken(t *testing.T) {
	var calls []call
	w, ran := served(t, answers(nil, &calls), "9223372036854775807")
	require.Equal(t, http.StatusOK, w.Code)
	require.EqualValues(t, 9223372036854775807, ran)
	require.Equal(t, []call{{"/ledger", 9223372036854775807}}, calls)
}

func TestStaleRequestIsAnsweredWithBothTokens(t *testing.T) {
	var calls []call
	stale := &fencing.StaleError{Token: 4294967311, Newest: 4294967330}
	w, ran := served(t, answers(fmt.Errorf("store: %w", stale), &calls), "4294967311")
	require.Zero(t, ran)
	fields := document(t, w, http.StatusConflict)
	require.Equal(t, httpfence.StaleType, fields["type"])
	require.Equal(t, "4294967311", fields["token"])
	require.Equal(t, "4294967330", fields["newest"])
	require.NotContains(t, fields["detail"], "store", "the response contains only the refusal's text")
}

func TestRequestWithoutTokenIsAnswered428(t *testing.T) {
	var calls []call
	w, ran := served(t, answers(nil, &calls))
	require.Zero(t, ran)
	require.Empty(t, calls)
	require.Contains(t, document(t, w, http.StatusPreconditionRequired)["detail"], "Fencing-Token")
}

func TestMalformedTokenIsBadRequest(t *testing.T) {
	for _, tokens := range [][]string{
		{""},
		{"0"},
		{"-1"},
		{"+1"},
		{"01"},
		{"1.0"},
		{"0x1"},
		{"1, 2"},
		{"9223372036854775808"},
		{"1", "1"},
		{"2", "1"},
	} {
		var calls []call
		w, ran := served(t, answers(nil, &calls), tokens...)
		require.Zero(t, ran)
		require.Empty(t, calls)
		document(t, w, http.StatusBadRequest)
	}
}

func TestTokenThatGuardReportsInvalidIsBadRequest(t *testing.T) {
	var calls []call
	w, ran := served(t, answers(fmt.Errorf("guard: %w", fencing.ErrInvalid), &calls), "1")
	require.Zero(t, ran)
	document(t, w, http.StatusBadRequest)
}

func TestFailedGuardAdmitsNoRequest(t *testing.T) {
	secret := errors.New("database at 10.0.0.1 is down")
	var calls []call
	w, ran := served(t, answers(secret, &calls), "1")
	require.Zero(t, ran)
	document(t, w, http.StatusServiceUnavailable)
	require.NotContains(t, w.Body.String(), "10.0.0.1")

	var reported error
	handler, err := httpfence.Protect(http.NotFoundHandler(), answers(secret, &calls), path, &httpfence.Options{
		Failed: func(_ *http.Request, err error) { reported = err },
	})
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/ledger", nil)
	r.Header.Set(httpfence.Header, "1")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, secret, reported)
}

func TestRefusalWithInvalidTokensIsNotServed(t *testing.T) {
	var calls []call
	w, ran := served(t, answers(&fencing.StaleError{Token: 1, Newest: -1}, &calls), "1")
	require.Zero(t, ran)
	require.Equal(t, http.StatusInternalServerError, w.Code)
}

// The error of a stale epoch is of this kind: it names more than two tokens.
func TestOtherStaleErrorIsConflictWithoutTokens(t *testing.T) {
	var calls []call
	w, ran := served(t, answers(fmt.Errorf("internal: %w", fencing.ErrStale), &calls), "1")
	require.Zero(t, ran)
	fields := document(t, w, http.StatusConflict)
	require.Equal(t, httpfence.StaleType, fields["type"])
	require.NotContains(t, fields, "token")
	require.NotContains(t, fields, "newest")
	require.NotContains(t, w.Body.String(), "internal")
}

func TestRefuseLeavesOtherErrorsToHandler(t *testing.T) {
	for _, err := range []error{nil, errors.New("internal")} {
		w := httptest.NewRecorder()
		require.False(t, httpfence.Refuse(w, err))
		require.Empty(t, w.Body.String())
		require.Empty(t, w.Header())
	}
}

func TestProtectRequiresGuardFunctionAndHandler(t *testing.T) {
	var calls []call
	guard, next := answers(nil, &calls), http.NotFoundHandler()
	for _, missing := range []func() (http.Handler, error){
		func() (http.Handler, error) { return httpfence.Protect(nil, guard, path, nil) },
		func() (http.Handler, error) { return httpfence.Protect(next, nil, path, nil) },
		func() (http.Handler, error) { return httpfence.Protect(next, httpfence.GuardFunc(nil), path, nil) },
		func() (http.Handler, error) { return httpfence.Protect(next, guard, nil, nil) },
	} {
		handler, err := missing()
		require.ErrorContains(t, err, "is nil")
		require.Nil(t, handler)
	}
	require.Panics(t, func() { httpfence.RequireToken(nil) })
}

func TestHistoryOfRequestReachesGuardAndHandler(t *testing.T) {
	var guarded, handled string
	guard := httpfence.GuardFunc(func(ctx context.Context, _ string, _ fencing.Token) error {
		guarded = fencing.HistoryFromContext(ctx)
		return nil
	})
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { handled = fencing.HistoryFromContext(r.Context()) })
	handler, err := httpfence.Protect(next, guard, path, nil)
	require.NoError(t, err)
	serve := func(histories ...string) *httptest.ResponseRecorder {
		guarded, handled = "none", "none"
		outer := fencing.WithHistory(t.Context(), "of an outer handler")
		r := httptest.NewRequestWithContext(outer, http.MethodPut, "/ledger", nil)
		r.Header.Set(httpfence.Header, "7")
		for _, id := range histories {
			r.Header.Add(httpfence.HistoryHeader, id)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, http.StatusOK, serve("first").Code)
	require.Equal(t, []string{"first", "first"}, []string{guarded, handled})
	require.Equal(t, http.StatusOK, serve().Code)
	require.Equal(t, []string{"", ""}, []string{guarded, handled}, "a request without a history has none")
	for _, malformed := range [][]string{{""}, {"a b"}, {"first", "first"}} {
		require.Contains(t, document(t, serve(malformed...), http.StatusBadRequest)["detail"], "Fencing-History")
		require.Equal(t, []string{"none", "none"}, []string{guarded, handled})
	}
}

func TestTokenOfAnotherHistoryIsAnsweredWithBothHistories(t *testing.T) {
	var calls []call
	w, ran := served(t, answers(fmt.Errorf("store: %w", &fencing.HistoryError{Token: 7, Given: "second", Stored: "first"}), &calls), "7")
	require.Zero(t, ran)
	fields := document(t, w, http.StatusConflict)
	require.Equal(t, httpfence.HistoryType, fields["type"])
	require.Equal(t, "7", fields["token"])
	require.Equal(t, "second", fields["history"])
	require.Equal(t, "first", fields["stored"])

	w, ran = served(t, answers(fmt.Errorf("internal: %w", fencing.ErrOtherHistory), &calls), "7")
	require.Zero(t, ran)
	fields = document(t, w, http.StatusConflict)
	require.Equal(t, httpfence.HistoryType, fields["type"])
	require.NotContains(t, fields, "stored")
	require.NotContains(t, w.Body.String(), "internal")
}

// The handler has set the headers of the body that it meant to write when its store refuses the token.
func TestRefusalAfterHeadersOfAnotherBodyNotifiesHolder(t *testing.T) {
	for header, value := range map[string]string{"Content-Length": "2", "Content-Encoding": "gzip"} {
		t.Run(header, func(t *testing.T) {
			server := httptest.NewServer(httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(header, value)
				require.True(t, httpfence.Refuse(w, &fencing.StaleError{Token: fencing.TokenFromContext(r.Context()), Newest: 9}))
			})))
			defer server.Close()
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			client := &http.Client{Transport: &httpfence.Transport{Base: base, RefusalIsError: true}}
			r, err := http.NewRequestWithContext(fencing.WithToken(t.Context(), 7), http.MethodPut, server.URL, nil)
			require.NoError(t, err)
			resp, err := client.Do(r)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			var stale *fencing.StaleError
			require.ErrorAs(t, err, &stale)
			require.Equal(t, fencing.StaleError{Token: 7, Newest: 9}, *stale)
		})
	}
}

func TestPreflightNeedsNoToken(t *testing.T) {
	var calls []call
	served := 0
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.Zero(t, fencing.TokenFromContext(r.Context()))
		served++
	})
	protected, err := httpfence.Protect(next, answers(nil, &calls), path, nil)
	require.NoError(t, err)
	for _, handler := range []http.Handler{httpfence.RequireToken(next), protected} {
		served = 0
		// The context of an outer handler has the token of another request.
		ask := func(method, ask string) int {
			r := httptest.NewRequestWithContext(fencing.WithToken(t.Context(), 7), method, "/ledger", nil)
			r.Header.Set("Origin", "https://ledger.example")
			if ask != "" {
				r.Header.Set("Access-Control-Request-Method", ask)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		require.Equal(t, http.StatusOK, ask(http.MethodOptions, http.MethodPut))
		require.Equal(t, 1, served)
		require.Equal(t, http.StatusPreconditionRequired, ask(http.MethodOptions, ""), "not a preflight")
		require.Equal(t, http.StatusPreconditionRequired, ask(http.MethodPut, http.MethodPut), "a write")
		require.Equal(t, 1, served)
	}
	require.Empty(t, calls, "the guard has nothing to decide")
}
