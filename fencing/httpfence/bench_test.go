// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
)

// BenchmarkWrite puts a value over HTTP with the guard and without it, alternately, so that disturbances affect both alike.
func BenchmarkWrite(b *testing.B) {
	var (
		mu    sync.Mutex // guards value
		value []byte
		gate  fencing.Gate
	)
	put := func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if token := fencing.TokenFromContext(r.Context()); token != 0 && httpfence.Refuse(w, gate.Admit(token)) {
			return
		}
		value = text
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /guarded", httpfence.RequireToken(http.HandlerFunc(put)))
	mux.HandleFunc("PUT /bare", put)
	server := httptest.NewServer(mux)
	defer server.Close()

	plain := &http.Transport{}
	defer plain.CloseIdleConnections()
	guarded := &http.Client{Transport: &httpfence.Transport{Base: plain, RefusalIsError: true}}
	bare := &http.Client{Transport: plain}
	ctx := fencing.WithToken(b.Context(), 4294967311)
	write := func(client *http.Client, path string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+path, strings.NewReader("an entry"))
		require.NoError(b, err)
		response, err := client.Do(r)
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, response.StatusCode)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
	}
	var took [2]time.Duration
	for b.Loop() {
		start := time.Now()
		write(guarded, "/guarded")
		took[0] += time.Since(start)
		start = time.Now()
		write(bare, "/bare")
		took[1] += time.Since(start)
	}
	require.Equal(b, "an entry", string(value))
	b.ReportMetric(0, "ns/op") // the sum of both has no meaning
	b.ReportMetric(float64(took[0])/float64(b.N), "guarded-ns/op")
	b.ReportMetric(float64(took[1])/float64(b.N), "bare-ns/op")
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio") // the rate of guarded writes to the rate of bare ones
}
