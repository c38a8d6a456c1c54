// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lockkeeper/lockkeeper/internal/lease"
)

const (
	// commentInterval is below the idle timeouts of load balancers.
	commentInterval = 15 * time.Second
	// eventTimeout bounds the writing of one event: a client that reads nothing is disconnected.
	eventTimeout = 10 * time.Second
)

// errEnded is the end of a stream that the caller sees as a closed connection. EventSource then connects again.
var errEnded = errors.New("stream ended by the service")

func (a *API) registerEvents() {
	a.registerStream(operation{
		name: "events", method: http.MethodGet, path: "/v1/locks/{namespace}/{key}/events",
		summary: "Follow a lock, as server-sent events: its status, and again after each change", answers: map[int]any{200: status{}},
	}, "lock", func(c *call, s lease.Status) any { return describe(c.key, s) })
}

// registerStream adds a route that follows a lock. Its events have one name, and data that render returns. A client that
// reads slowly misses values that a newer one has replaced.
func (a *API) registerStream(op operation, event string, render func(*call, lease.Status) any) {
	registered := a.operation(op)
	registered.Responses["200"].Description = "Events named " + event + ", with this as data; and one named problem before the end"
	registered.Responses["200"].Content = map[string]*huma.MediaType{"text/event-stream": {
		Schema: a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(op.answers[200]), true, ""),
	}}
	huma.Register(a.huma, registered, func(ctx context.Context, _ *statusRequest) (*huma.StreamResponse, error) {
		c := callOf(ctx)
		leave, ok := a.limiter.Wait(c.principal.Name, c.principal.Limits)
		if !ok {
			c.problem = problem(TooManyWaiters, "").retryAfter(time.Second)
			return nil, c.problem
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			c.after = func() {
				defer leave()
				s := &stream{w: w, connection: http.NewResponseController(w), name: event}
				if err := a.follow(c, r, s, render); err != nil && r.Context().Err() == nil && !errors.Is(err, errEnded) {
					c.problem = refuse(err)
					s.name = "problem"
					// The connection may be what failed; the log has the problem.
					_ = s.send(c.problem)
				}
			}
		}}, nil
	})
}

// follow sends events until the caller has gone or the replica stops, and returns the reason.
func (a *API) follow(c *call, r *http.Request, s *stream, render func(*call, lease.Status) any) error {
	if err := s.begin(); err != nil {
		return err
	}
	watch := a.Locks.Watch(c.path)
	defer watch.Close()
	ticker := time.NewTicker(commentInterval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-watch.Changed():
			now, failed := watch.Status()
			if failed != nil {
				return failed
			}
			err = s.send(render(c, now))
		case <-ticker.C:
			if err := a.stillMayRead(c); err != nil {
				return err
			}
			err = s.write([]byte(alive))
		case <-r.Context().Done():
			return r.Context().Err()
		case <-a.Draining:
			return errEnded
		}
		if err != nil {
			return err
		}
	}
}

// stillMayRead notes the present permissions of the caller of a stream, or returns why it may no longer read.
func (a *API) stillMayRead(c *call) error {
	who, p := a.identifyAgain(c)
	if p != nil {
		return p
	}
	c.principal = who
	return nil
}

// alive is a comment: it keeps a silent stream open.
const alive = ": alive\n\n"

// A stream is one connection to which events are written.
type stream struct {
	w          http.ResponseWriter
	connection *http.ResponseController
	name       string
}

// begin writes the head of the stream.
func (s *stream) begin() error {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-store")
	s.w.Header().Set("X-Accel-Buffering", "no")
	return s.write([]byte(": the retry is in ms\nretry: 1000\n\n"))
}

// send writes one event.
func (s *stream) send(data any) error {
	event, err := s.event(data)
	if err != nil {
		return err
	}
	return s.write(event)
}

// event returns one event as it is written.
func (s *stream) event(data any) ([]byte, error) {
	var event bytes.Buffer
	event.WriteString("event: " + s.name + "\ndata: ")
	// Encode writes one row, as JSON escapes line feeds, and ends it. A second line feed ends the event.
	if err := json.NewEncoder(&event).Encode(data); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	event.WriteByte('\n')
	return event.Bytes(), nil
}

func (s *stream) write(text []byte) error {
	if err := s.connection.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.connection.Flush()
}
