// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

//go:embed page
var page embed.FS

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 4 << 10

// policy lets the page run its own script only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler returns the page and what it calls. Only pages of the same origin can act, and only names of this host are served, so that
// another site cannot act through the browser of a user.
func (l *Lab) handler(info Info, run func(p *Preset, seed uint64) error) http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /api/info", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, info) })
	mux.HandleFunc("GET /api/events", l.stream)
	mux.HandleFunc("GET /api/presets/{name}", replay)
	mux.HandleFunc("POST /api/presets/{name}", func(w http.ResponseWriter, r *http.Request) {
		p := find(r.PathValue("name"))
		seed, err := strconv.ParseUint(r.FormValue("seed"), 10, 64)
		if p == nil || err != nil {
			refuse(w, http.StatusNotFound, &NoRecordingError{r.PathValue("name"), r.FormValue("seed")})
			return
		}
		if err := run(p, seed); err != nil {
			refuse(w, http.StatusConflict, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST /api/actions", l.act)
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-cache")
		if !isLocal(r.Host) {
			refuse(w, http.StatusForbidden, fmt.Errorf("host %q is not a name of this machine: open the address that dev prints", r.Host))
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// Info is what the page shows about the laboratory, apart from events.
type Info struct {
	Servers []string       `json:"servers"` // of the ensemble
	Service string         `json:"service"` // URL of the lock service
	Path    string         `json:"path"`    // of the lock
	Presets []RecordedInfo `json:"presets"`
}

// A RecordedInfo is a preset with its recordings.
type RecordedInfo struct {
	*Preset

	Seeds []uint64 `json:"seeds"`
}

func infoOf(servers []string, service string) Info {
	i := Info{Servers: servers, Service: service, Path: path}
	for _, p := range presets {
		i.Presets = append(i.Presets, RecordedInfo{p, seedsOf(p.Name)})
	}
	return i
}

// isLocal reports whether the host of a request is a loopback address or localhost.
func isLocal(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// answer sends a value in JSON.
func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the browser has gone
}

// refuse sends an error in JSON.
func refuse(w http.ResponseWriter, status int, err error) {
	answer(w, status, map[string]string{"error": err.Error()})
}

// replay answers with a recording.
func replay(w http.ResponseWriter, r *http.Request) {
	content, err := recordingOf(r.PathValue("name"), r.FormValue("seed"))
	if missing := (*NoRecordingError)(nil); errors.As(err, &missing) {
		refuse(w, http.StatusNotFound, err)
		return
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content) // the browser has gone
}

// act carries out an action of the user.
func (l *Lab) act(w http.ResponseWriter, r *http.Request) {
	var a Action
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&a); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("read the action: %w", err))
		return
	}
	err := l.Do(r.Context(), a)
	if bad := (*BadActionError)(nil); errors.As(err, &bad) {
		refuse(w, http.StatusConflict, err)
		return
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// A batch is a message of the stream.
type batch struct {
	Reset  bool    `json:"reset"`            // the browser forgets the events that it has
	Before state   `json:"before,omitempty"` // ahead of the first event, after a reset
	Events []Event `json:"events"`
}

// stream sends the events so far, and then each further one, as server-sent events. A browser that connects again continues where it
// was, unless that was another laboratory at this address.
func (l *Lab) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out, run, last := http.NewResponseController(w), l.journal.began.UnixNano(), 0
	var other int64
	if n, _ := fmt.Sscanf(r.Header.Get("Last-Event-ID"), "%d-%d", &other, &last); n != 2 || other != run {
		last = 0
	}
	for {
		before, events, grown := l.journal.since(last)
		if len(events) > 0 {
			text, err := json.Marshal(batch{last == 0 || before != nil, before, events})
			if err != nil {
				slog.Error("lab: encode events", "error", err) // each value has a JSON form
				return
			}
			last = events[len(events)-1].ID
			if _, err := fmt.Fprintf(w, "id: %d-%d\ndata: %s\n\n", run, last, text); err != nil {
				return // the browser has gone
			}
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

// newServer returns a server whose requests end with ctx.
func newServer(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
}
