// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"
	"time"
)

// viewInterval is the time after which an open page reads its locks again. A browser opens at most six connections to an
// origin, so that a page cannot follow each lock by a separate event stream.
const viewInterval = 2 * time.Second

// viewPause returns the pause after a read of the locks. A namespace that is slow to read is read less often, so that open
// pages do not load ZooKeeper, but often enough for comments.
func viewPause(took time.Duration) time.Duration {
	return min(max(viewInterval, 9*took), commentInterval)
}

// viewEvents streams the rows of a page: immediately, and again after each change. It counts as a waiter.
func (a *API) viewEvents(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	_, p := a.enter(operation{name: "view-events"}, w, r)
	if p != nil {
		p.write(w)
		return
	}
	in, p := viewRequest(r.URL.Query())
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
	if err := a.followRows(c, r, s, in); err != nil && r.Context().Err() == nil && !errors.Is(err, errEnded) {
		c.problem = refuse(err)
		s.name = "problem"
		// The connection may be what failed; the log has the problem.
		_ = s.send(c.problem)
	}
}

// followRows sends the rows until the caller has gone or the replica stops, and returns the reason.
func (a *API) followRows(c *call, r *http.Request, s *stream, in ListRequest) error {
	if err := s.begin(); err != nil {
		return err
	}
	sent, written := "", time.Time{}
	for {
		begun := time.Now()
		found, _, err := a.find(r.Context(), c, in)
		if err != nil {
			return err
		}
		rows, err := renderRows(rowsOf(c, found))
		if err != nil {
			return err
		}
		switch {
		case rows != sent:
			err, sent, written = s.send(rows), rows, time.Now()
		case time.Since(written) >= commentInterval:
			err, written = s.write(alive), time.Now()
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
		if err := a.stillMayRead(c, r); err != nil {
			return err
		}
	}
}
