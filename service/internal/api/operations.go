// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// registerOperations adds the routes for those who run the service. They need no credentials, and show nothing of a
// lock or a principal.
func (a *API) registerOperations(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "alive\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-a.Draining:
			a.refuseUnrouted(w, r, problem(Unavailable, "The replica is stopping."))
			return
		default:
		}
		if err := a.Ready(); err != nil {
			p := problem(Unavailable, "No quorum of the ZooKeeper ensemble has answered recently.").because(err)
			a.refuseUnrouted(w, r, p)
			return
		}
		plain(w, http.StatusOK, "ready\n")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(shared(a.Registry.Gather)), promhttp.HandlerOpts{}))
	for _, unused := range []string{"ErrorModel", "ErrorDetail"} { // Huma's own errors, which asProblem replaces
		delete(a.huma.OpenAPI().Components.Schemas.Map(), unused)
	}
	document, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		panic(err) // the document depends on nothing but this package's types, and a test reads it
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document) // the caller has gone if this fails
	})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the caller has gone if this fails
}
