// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/key"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

const (
	viewRows    = 50  // locks on a page: each costs a listing and a read for each contender, at each refresh
	viewWaiters = 5   // of a queue that are named
	viewLabel   = 256 // runes of a label: the owner of a foreign node is its data, of any length
)

// A row is one lock as the list of a namespace shows it.
type row struct {
	Key, URL, Owner, Kind string
	Revoked               bool
	Election              bool // the holder campaigned through this service
	Value                 string
	Since, Until          time.Time // of the hold; zero if unknown
	Waiters               []string  // owners, the next holder first
	More                  int       // waiters that are not named
}

// A rows is the part of the list that changes.
type rows []row

func (rows) template() string { return "rows" }

// locksBody is what the page of a namespace shows.
type locksBody struct {
	Namespace, Prefix string
	Rows              rows
	Stream, Next      string // URLs; Next is empty on the last page
	Actions           string // URL of the administrative actions, empty without the role
}

// namespacesBody is what the first page shows.
type namespacesBody struct {
	Rows         namespaceRows
	Stream, Next string
	Actions      string
}

// A namespaceRow is one namespace.
type namespaceRow struct {
	summary
	URL   string
	Since time.Time // of the longest hold, zero if there is none
}

type namespaceRows []namespaceRow

func (namespaceRows) template() string { return "namespace-rows" }

func (a *API) viewLocks(w http.ResponseWriter, r *http.Request) {
	c, query := callOf(r.Context()), r.URL.Query()
	if _, p := a.enter(operation{name: "view", everywhere: true}, w, r); p != nil {
		a.refuseView(w, r, p)
		return
	}
	in, p := viewRequest(query)
	if p != nil {
		a.refuseView(w, r, p)
		return
	}
	if c.namespace == "" {
		a.viewNamespaces(w, r, c, in.Page)
		return
	}
	found, next, err := a.find(r.Context(), c, in)
	if err != nil {
		a.refuseView(w, r, refuseCall(r.Context(), err))
		return
	}
	body := locksBody{
		Namespace: c.namespace, Prefix: in.Prefix, Rows: rowsOf(c, found),
		Stream: "/events?" + pageQuery(c, in.Prefix, in.Page), Actions: actionsOf(c),
	}
	if next != "" {
		body.Next = "/?" + pageQuery(c, in.Prefix, next)
	}
	a.render(w, r, http.StatusOK, "locks", "Locks of "+c.namespace, body)
}

// viewNamespaces shows the namespaces that the principal may use.
func (a *API) viewNamespaces(w http.ResponseWriter, r *http.Request, c *call, after string) {
	found, err := a.summarize(r.Context(), c.principal, after)
	if err != nil {
		a.refuseView(w, r, refuseCall(r.Context(), err))
		return
	}
	body := namespacesBody{Rows: namespaceRowsOf(found), Stream: "/events?" + pageQuery(c, "", after), Actions: actionsOf(c)}
	if found.NextPage != "" {
		body.Next = "/?" + pageQuery(c, "", found.NextPage)
	}
	a.render(w, r, http.StatusOK, "namespaces", "Namespaces", body)
}

// readNamespaces reads the part of that page that changes.
func (a *API) readNamespaces(ctx context.Context, c *call, after string) (namespaceRows, error) {
	found, err := a.summarize(ctx, c.principal, after)
	if err != nil {
		return nil, err
	}
	return namespaceRowsOf(found), nil
}

func namespaceRowsOf(found *summaries) namespaceRows {
	out := make(namespaceRows, 0, len(found.Namespaces))
	for _, s := range found.Namespaces {
		out = append(out, namespaceRow{s, home(s.Namespace), instant(s.HeldSince)})
	}
	return out
}

// actionsOf returns the URL of the administrative actions that a call may see, empty without the role.
func actionsOf(c *call) string {
	switch {
	case !c.principal.Has(principal.Admin):
		return ""
	case c.namespace == "":
		return actionsPath
	}
	return actionsPath + "?" + url.Values{"namespace": {c.namespace}}.Encode()
}

// viewRequest reads the query of a page or of its event stream.
func viewRequest(query url.Values) (ListRequest, *Problem) {
	in := ListRequest{Prefix: query.Get("prefix"), Limit: viewRows, Page: query.Get("page")}
	if len(in.Prefix) > key.MaxBytes {
		return in, invalid("query.prefix", fmt.Sprintf("the prefix is over %d bytes", key.MaxBytes))
	}
	return in, nil
}

func pageQuery(c *call, prefix, page string) string {
	query := url.Values{}
	for name, value := range map[string]string{"namespace": c.namespace, "prefix": prefix, "page": page} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode()
}

// readRows reads the part of a list that changes.
func (a *API) readRows(ctx context.Context, c *call, in ListRequest) (rows, error) {
	found, _, err := a.find(ctx, c, in)
	return rowsOf(c, found), err
}

// rowsOf returns the rows of the locks that a request can reach.
func rowsOf(c *call, found []lease.Status) rows {
	out := make(rows, 0, len(found))
	for _, s := range found {
		if name, ok := key.Decode(s.Path[strings.LastIndexByte(s.Path, '/')+1:]); ok && len(s.Contenders) > 0 {
			out = append(out, rowOf(c, name, s))
		}
	}
	return out
}

// rowOf returns the row of a lock that has a contender.
func rowOf(c *call, name string, s lease.Status) row {
	d := describe(name, s)
	out := row{
		Key: name, URL: keyPath + "?" + lockQuery(c, name), Owner: label(d.OwnerID), Kind: d.Kind, Revoked: d.Revoked,
		Since: instant(d.CreatedAt), Until: instant(d.ExpiresAt),
	}
	out.Value, out.Election = d.Metadata[valueName]
	out.Value = label(out.Value)
	waiters := waitersOf(s)
	for _, waiter := range waiters[:min(len(waiters), viewWaiters)] {
		out.Waiters = append(out.Waiters, label(waiter.Owner))
	}
	out.More = len(waiters) - len(out.Waiters) + s.More
	return out
}

// lockQuery names a lock in a URL of the page.
func lockQuery(c *call, name string) string {
	return url.Values{"namespace": {c.namespace}, "key": {name}}.Encode()
}

// instant returns a time that is given in ms since the epoch, zero for 0.
func instant(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// label returns a text that fits into a row.
func label(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if runes := []rune(text); len(runes) > viewLabel {
		return string(runes[:viewLabel]) + "…"
	}
	return text
}
