// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
)

// put sends an entry with the token of a lock, and prints the status of the response.
func put(client *http.Client, url string, token fencing.Token) error {
	r, err := http.NewRequestWithContext(fencing.WithToken(context.Background(), token), http.MethodPut, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	fmt.Println(resp.Status)
	return resp.Body.Close()
}

// The handler checks and writes in one step, under the lock of its store, and answers with the store's result. Two clients
// hold the lock one after the other; the first has not been notified of its loss yet.
func ExampleRequireToken() {
	var mu sync.Mutex
	var gate fencing.Gate
	server := httptest.NewServer(httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		err := gate.Admit(fencing.TokenFromContext(r.Context())) // and write; with a store that checks tokens, both are one call
		switch {
		case httpfence.Refuse(w, err): // Refuse has answered
		case err != nil: // the store failed: neither refused nor certainly written
			http.Error(w, "the outcome of the write is unknown", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})))
	defer server.Close()

	client := &http.Client{Transport: &httpfence.Transport{RefusalIsError: true}}
	fmt.Println(put(client, server.URL, 4294967311))
	fmt.Println(put(client, server.URL, 4294967330))

	var stale *fencing.StaleError
	if errors.As(put(client, server.URL, 4294967311), &stale) {
		fmt.Println(stale)
	}
	// Output:
	// 204 No Content
	// <nil>
	// 204 No Content
	// <nil>
	// fencing: token 4294967311 is stale: 4294967330 has been admitted
}

// A guard in front of a handler that does not check tokens. Protect answers the refused requests itself.
func ExampleProtect() {
	var gate fencing.Gate
	guard := httpfence.GuardFunc(func(_ context.Context, _ string, token fencing.Token) error { return gate.Admit(token) })
	ledger := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "written") })
	handler, err := httpfence.Protect(ledger, guard, func(r *http.Request) string { return r.URL.Path }, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, token := range []string{"11", "12", "11", "twelve", ""} {
		r := httptest.NewRequest(http.MethodPut, "/ledger", nil)
		if token != "" {
			r.Header.Set(httpfence.Header, token)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 written
	// 200 written
	// 409 {"type":"https://pkg.go.dev/github.com/lockkeeper/lockkeeper/fencing/httpfence#StaleType","title":"Stale fencing token","status":409,"detail":"fencing: token 11 is stale: 12 has been admitted","token":"11","newest":"12"}
	// 400 {"title":"Invalid fencing token","status":400,"detail":"Fencing-Token: invalid token, want a decimal number from 1 to 9223372036854775807"}
	// 428 {"title":"Fencing token required","status":428,"detail":"Send the token of your lock in the header Fencing-Token."}
}
