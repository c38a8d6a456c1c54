// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// keyBody is the part of the page of one lock that changes.
type keyBody struct {
	Lock     row
	Token    string // of the holder
	Metadata []entry
	Queue    []queued
	More     int    // waiters that are not named
	Release  string // URL of the form to release by force, empty without the role or a contender
	History  []history.Entry
}

func (keyBody) template() string { return "key-part" }

// An entry is one of the metadata of a lease.
type entry struct{ Name, Value string }

// A queued is a contender that waits.
type queued struct {
	Owner, Kind string
	Since       time.Time // zero if unknown
}

// viewKey shows one lock: its holder, queue and history.
func (a *API) viewKey(w http.ResponseWriter, r *http.Request) {
	c, _, p := a.enterLock(operation{name: "view-key"}, w, r)
	if p != nil {
		a.refuseView(w, r, p)
		return
	}
	body, err := a.readKey(r.Context(), c)
	if err != nil {
		a.refuseView(w, r, refuseCall(r.Context(), err))
		return
	}
	a.render(w, r, http.StatusOK, "key", c.key, struct {
		keyBody
		Namespace, Back, Stream string
	}{body, c.namespace, home(c.namespace), "/events?" + lockQuery(c, c.key)})
}

// readKey reads the queue and the history of a lock. It may have no contender.
func (a *API) readKey(ctx context.Context, c *call) (body keyBody, err error) {
	s, err := a.status(ctx, c)
	if err != nil && !errors.Is(err, lease.ErrNotFound) {
		return body, err
	}
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	if body.History, err = a.History.List(ctx, c.namespace, c.key); err != nil || len(s.Contenders) == 0 {
		return body, err
	}
	body.Lock = rowOf(c, c.key, s)
	d := describe(c.key, s)
	body.Token, body.More = d.FencingToken, s.More
	for _, waiter := range waitersOf(s) {
		body.Queue = append(body.Queue, queued{label(waiter.Owner), string(waiter.Kind), instant(millis(waiter.Since))})
	}
	for name, value := range d.Metadata {
		body.Metadata = append(body.Metadata, entry{label(name), label(value)})
	}
	slices.SortFunc(body.Metadata, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
	if i := slices.IndexFunc(body.History, func(e history.Entry) bool {
		return e.Action == history.Acquired && e.Token.String() == d.FencingToken
	}); i >= 0 {
		body.Lock.Since = body.History[i].Time // when it was granted: it may have waited before
	}
	if c.principal.Has(principal.Admin) {
		body.Release = forcePath + "?" + lockQuery(c, c.key)
	}
	return body, nil
}
