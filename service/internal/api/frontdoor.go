// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

// frontDoor returns the handler around all routes. It gives each request an id, answers those that no route takes,
// survives a panic, and logs and counts.
func (a *API) frontDoor(mux *http.ServeMux) http.Handler {
	routes := http.NewCrossOriginProtection() // a web page must not send requests through its reader's browser
	routes.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.refuseUnrouted(w, r, problem(Forbidden, "The request comes from a page of another origin."))
	}))
	inner := routes.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.route(mux, w, r) }))
	return http.HandlerFunc(func(w http.ResponseWriter, received *http.Request) {
		r := received
		c := &call{id: rand.Text(), received: time.Now(), remote: r.RemoteAddr, connection: http.NewResponseController(w)}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		w.Header().Set("X-Request-Id", c.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store") // a grant must not come from a cache
		counted := &countedWriter{ResponseWriter: w}
		a.metrics.inFlight.Inc()
		defer a.metrics.inFlight.Dec()
		defer func() {
			if v := recover(); v != nil {
				a.panicked(counted, c, v)
			}
			if c.written != nil {
				c.written()
			}
			a.report(c, r, counted)
		}()
		inner.ServeHTTP(counted, r)
		received.Pattern = c.pattern // as the mux sets it, for a middleware around the service
		if c.after != nil {
			c.after()
		}
	})
}

// route passes a request to its route, or refuses it.
func (a *API) route(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	escaped := r.URL.EscapedPath()
	if path.Clean(escaped) != escaped {
		// The mux would redirect to the path without the empty or dotted segments, which is another lock.
		a.refuseUnrouted(w, r, problem(RouteNotFound, ""))
		return
	}
	r = slashKey(r, escaped)
	if _, pattern := mux.Handler(r); pattern != "" {
		callOf(r.Context()).pattern = pattern
		mux.ServeHTTP(w, r)
		return
	}
	refusal := &discarded{header: http.Header{}}
	mux.ServeHTTP(refusal, r)
	p := problem(RouteNotFound, "")
	if refusal.status == http.StatusMethodNotAllowed {
		p = problem(MethodNotAllowed, "")
		p.allow = refusal.header.Get("Allow")
	}
	a.refuseUnrouted(w, r, p)
}

// slashKey returns a request that the mux routes as r. The mux takes a segment that is an encoded slash for the end of a path,
// which no wildcard matches. Two slashes take its place; keyOf reverses that.
func slashKey(r *http.Request, escaped string) *http.Request {
	segments := strings.Split(escaped, "/")
	for i, segment := range segments {
		if strings.EqualFold(segment, "%2F") {
			segments[i] = slashes
			callOf(r.Context()).slashKey = true
		}
	}
	if !callOf(r.Context()).slashKey {
		return r
	}
	u := *r.URL
	u.RawPath = strings.Join(segments, "/")
	u.Path, _ = url.PathUnescape(u.RawPath) // of escapes that were parsed before
	r = r.WithContext(r.Context())          // a copy
	r.URL = &u
	return r
}

const slashes = "%2F%2F"

// refuseUnrouted answers a request that reached no route. Its caller is not identified, and is as a stranger to the log.
func (a *API) refuseUnrouted(w http.ResponseWriter, r *http.Request, p *Problem) {
	c := callOf(r.Context())
	c.problem, c.unlogged = p, a.strangers.Allow(c.remote) > 0
	p.write(w)
}

// panicked answers a request whose handler panicked, if its answer has not begun.
func (a *API) panicked(w *countedWriter, c *call, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // net/http ends the connection
	}
	c.problem = problem(Internal, "").because(fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
	if w.status == 0 {
		c.problem.write(w)
	}
}

// report logs and counts a request. The log has what problem documents must not contain.
func (a *API) report(c *call, r *http.Request, w *countedWriter) {
	took := time.Since(c.received)
	code := ""
	if c.problem != nil {
		code = string(c.problem.Code)
	}
	a.metrics.observe(c.action, w.status, code, took)
	if c.action == "" && code == "" {
		return // a probe
	}
	skipped := 0
	if c.principal != nil && code != "" {
		skipped, c.unlogged = a.refusals.Skip(c.principal.Name, code)
	}
	if c.unlogged {
		a.metrics.unlogged.Inc()
		return
	}
	level := slog.LevelInfo
	if c.renewed() {
		level = slog.LevelDebug // 10,000 leases would be gigabytes a day
	}
	attributes := []slog.Attr{
		slog.String("request", c.id), slog.String("method", r.Method), slog.String("action", c.action),
		slog.String("namespace", c.namespace), slog.String("key", c.key), slog.Int("status", w.status),
		slog.Duration("took", took), slog.Int64("bytes", w.bytes), slog.String("remote", c.remote),
	}
	if c.principal != nil {
		attributes = append(attributes, slog.String("principal", c.principal.Name))
	}
	if c.problem != nil {
		attributes = append(attributes, slog.String("code", code))
		if skipped > 0 {
			attributes = append(attributes, slog.Int("unlogged", skipped)) // with the same principal and code
		}
		if c.problem.cause != nil {
			attributes = append(attributes, slog.Any("error", c.problem.cause))
		}
		if c.problem.Status >= http.StatusInternalServerError {
			level = slog.LevelError
		}
	}
	a.Logger.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attributes...)
}

// A countedWriter notes what was answered.
type countedWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader notes the status. A second one is of Huma, which cannot write the answer because the caller has gone.
func (w *countedWriter) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (w *countedWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap returns the connection's writer, for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A discarded writer keeps only what the mux says of a request without a route.
type discarded struct {
	header http.Header
	status int
}

// Header returns the headers.
func (d *discarded) Header() http.Header { return d.header }

// WriteHeader keeps the status.
func (d *discarded) WriteHeader(status int) { d.status = status }

// Write keeps nothing.
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
