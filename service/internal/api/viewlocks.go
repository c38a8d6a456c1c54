// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/key"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

const (
	viewRows    = 50  // locks on a page: each costs a listing and a read for each contender, at each refresh
	viewWaiters = 5   // of a queue that are named
	viewLabel   = 256 // runes of a label: the owner of a foreign node is its data, of any length
)

// A row is one lock as the page shows it.
type row struct {
	Key, Owner, Kind, Token string
	Revoked                 bool
	Election                bool // the holder campaigned through this service
	Value                   string
	Until                   time.Time // end of a lease, zero if the holder has none
	Waiters                 []string  // owners, the next holder first
	More                    int       // waiters that are not named
	Release                 string    // URL of the form to release by force, empty without the role
}

// locksBody is what the page of a namespace shows.
type locksBody struct {
	Namespace, Prefix string
	Namespaces        []string // suggestions
	Rows              []row
	Stream, Next      string // URLs; Next is empty on the last page
	Actions           string // URL of the administrative actions, empty without the role
}

func (a *API) viewLocks(w http.ResponseWriter, r *http.Request) {
	c, query := callOf(r.Context()), r.URL.Query()
	op := operation{name: "view"}
	if query.Get("namespace") == "" {
		a.viewFirst(w, r, op)
		return
	}
	if _, p := a.enter(op, w, r); p != nil {
		a.refuseView(w, r, p)
		return
	}
	in, p := viewRequest(query)
	if p != nil {
		a.refuseView(w, r, p)
		return
	}
	found, next, err := a.find(r.Context(), c, in)
	if err != nil {
		a.refuseView(w, r, refuseCall(r.Context(), err))
		return
	}
	body := locksBody{
		Namespace: c.namespace, Prefix: in.Prefix, Namespaces: named(c.principal), Rows: rowsOf(c, found),
		Stream: "/events?" + pageQuery(c, in.Prefix, in.Page),
	}
	if next != "" {
		body.Next = "/?" + pageQuery(c, in.Prefix, next)
	}
	if c.principal.Has(principal.Admin) {
		body.Actions = actionsPath + "?" + url.Values{"namespace": {c.namespace}}.Encode()
	}
	a.render(w, r, http.StatusOK, "locks", "Locks of "+c.namespace, body)
}

// viewFirst answers a request without a namespace: it redirects to the first of the principal, or asks which one to show.
func (a *API) viewFirst(w http.ResponseWriter, r *http.Request, op operation) {
	c := callOf(r.Context())
	c.action = op.name
	if p := a.identify(c, operation{}, r); p != nil {
		a.refuseView(w, r, p)
		return
	}
	if namespaces := named(c.principal); len(namespaces) > 0 {
		http.Redirect(w, r, home(namespaces[0]), http.StatusSeeOther)
		return
	}
	a.render(w, r, http.StatusOK, "locks", "Locks", locksBody{})
}

// named returns the namespaces that are listed for a principal by name.
func named(p *principal.Principal) []string {
	return slices.DeleteFunc(slices.Clone(p.Namespaces), func(namespace string) bool { return namespace == "*" })
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
	query := url.Values{"namespace": {c.namespace}}
	for name, value := range map[string]string{"prefix": prefix, "page": page} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode()
}

// rowsOf returns the rows of the locks that a request can reach.
func rowsOf(c *call, found []lease.Status) []row {
	rows := make([]row, 0, len(found))
	for _, s := range found {
		if name, ok := key.Decode(s.Path[strings.LastIndexByte(s.Path, '/')+1:]); ok && len(s.Contenders) > 0 {
			rows = append(rows, rowOf(c, name, s))
		}
	}
	return rows
}

// rowOf returns the row of a lock that has a holder.
func rowOf(c *call, name string, s lease.Status) row {
	d := describe(name, s)
	out := row{Key: name, Owner: label(d.OwnerID), Kind: d.Kind, Token: d.FencingToken, Revoked: d.Revoked}
	if d.ExpiresAt != 0 {
		out.Until = time.UnixMilli(d.ExpiresAt).UTC()
	}
	out.Value, out.Election = d.Metadata[valueName]
	out.Value = label(out.Value)
	waiters := s.Contenders[1:]
	for _, waiter := range waiters[:min(len(waiters), viewWaiters)] {
		out.Waiters = append(out.Waiters, label(waiter.Owner))
	}
	out.More = len(waiters) - len(out.Waiters) + s.More
	if c.principal.Has(principal.Admin) {
		out.Release = "/force-release?" + url.Values{"namespace": {c.namespace}, "key": {name}}.Encode()
	}
	return out
}

// label returns a text that fits into a row.
func label(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if runes := []rune(text); len(runes) > viewLabel {
		return string(runes[:viewLabel]) + "…"
	}
	return text
}

// renderRows returns the rows as HTML.
func renderRows(rows []row) (string, error) {
	var html bytes.Buffer
	err := viewTemplates.ExecuteTemplate(&html, "rows", rows)
	return html.String(), err
}
