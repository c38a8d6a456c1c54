// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/lockkeeper/lockkeeper/service/internal/limit"
)

// viewInterval is the time after which an open page reads its locks again. A browser opens at most six connections to an
// origin, so that a page cannot follow each lock by a separate event stream.
const viewInterval = 2 * time.Second

// viewPause returns the pause after a read of the locks. A namespace that is slow to read is read less often, so that open
// pages do not load ZooKeeper, but often enough for comments.
func viewPause(took time.Duration) time.Duration {
	return min(max(viewInterval, 9*took), commentInterval)
}

// viewEvents streams the part of a page that changes, immediately and again after each change: the locks of a namespace, one lock
// with a key, the namespaces without either. It counts as a waiter.
func (a *API) viewEvents(w http.ResponseWriter, r *http.Request) {
	c, query := callOf(r.Context()), r.URL.Query()
	r.SetPathValue("key", query.Get("key"))
	_, p := a.enter(operation{name: "view-events", everywhere: query.Get("key") == ""}, w, r)
	if p != nil {
		p.write(w)
		return
	}
	in, p := viewRequest(query)
	if p != nil {
		a.refuseUnrouted(w, r, p)
		return
	}
	leave, ok := a.limiter.Wait(c.principal.Name, c.principal.Limits)
	if !ok {
		a.refuseUnrouted(w, r, problem(TooManyWaiters, "").retryAfter(time.Second))
		return
	}
	defer leave()
	s := &stream{w: w, connection: http.NewResponseController(w), name: "rows"}
	err := a.followPage(c, r, s, func(ctx context.Context) (string, error) {
		switch {
		case c.key != "":
			return part(a.readKey(ctx, c))
		case c.namespace != "":
			return part(a.readRows(ctx, c, in))
		}
		return part(a.readNamespaces(ctx, c, in.Page))
	})
	if err != nil && r.Context().Err() == nil && !errors.Is(err, errEnded) {
		c.problem = refuse(err)
		s.name = "problem"
		// The connection may be what failed; the log has the problem.
		_ = s.send(c.problem)
	}
}

// part returns the HTML of what was read.
func part[T interface{ template() string }](body T, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var html bytes.Buffer
	err = viewTemplates.ExecuteTemplate(&html, body.template(), body)
	return html.String(), err
}

// followPage sends what read returns until the caller has gone or the replica stops, and returns the reason.
func (a *API) followPage(c *call, r *http.Request, s *stream, read func(context.Context) (string, error)) error {
	if err := s.begin(); err != nil {
		return err
	}
	seed := maphash.MakeSeed()
	sent, written := uint64(0), time.Time{} // the hash of a large page, as thousands can be open
	for {
		begun := time.Now()
		html, err := read(r.Context())
		if err != nil {
			return err
		}
		hash := maphash.String(seed, html)
		switch {
		case hash != sent:
			var counted bool
			if counted, err = a.sendCounted(c, s, html); counted {
				sent = hash
			}
			written = time.Now()
		case time.Since(written) >= commentInterval:
			err, written = s.write([]byte(alive)), time.Now()
		}
		if err != nil {
			return err
		}
		select {
		case <-time.After(viewPause(time.Since(begun))):
		case <-r.Context().Done():
			return r.Context().Err()
		case <-a.Draining:
			return errEnded
		}
		if err := a.stillMayRead(c); err != nil {
			return err
		}
	}
}

// sendCounted writes one event, whose bytes count as those of a page until they are written: each event of a caller that does not
// read is in memory until then, and a principal can have a thousand streams. If the principal has too many bytes unread,
// sendCounted writes a comment instead and reports false.
func (a *API) sendCounted(c *call, s *stream, html string) (counted bool, err error) {
	event, err := s.event(html)
	if err != nil {
		return false, err
	}
	written, counted := a.limiter.Answer(c.principal.Name, limit.Any, len(event))
	if !counted {
		return false, s.write([]byte(alive))
	}
	defer written()
	return true, s.write(event)
}
