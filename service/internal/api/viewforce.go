// SPDX-License-Identifier: Apache-2.0

package api

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

const (
	maxReason = 512 // characters, as forceRequest has it
)

// viewForce shows the form to release a lock by force. The form names the holder that it shows by its fencing token.
func (a *API) viewForce(w http.ResponseWriter, r *http.Request) {
	c, _, p := a.enterLock(operation{name: "view-force-release", role: principal.Admin}, w, r)
	if p != nil {
		a.refuseView(w, r, p)
		return
	}
	s, err := a.status(r.Context(), c)
	if err != nil {
		a.refuseView(w, r, refuseCall(r.Context(), err))
		return
	}
	a.render(w, r, http.StatusOK, "force", "Force-release "+c.key, struct {
		Row                 row
		Token, Action, Back string
	}{rowOf(c, c.key, s), s.Contenders[0].Token.String(), forcePath + "?" + lockQuery(c, c.key), keyPath + "?" + lockQuery(c, c.key)})
}

// viewForced releases a lock by force, as a form asks.
func (a *API) viewForced(w http.ResponseWriter, r *http.Request) {
	c, body, p := a.enterLock(forceOperation, w, r)
	if p == nil {
		var in *forceRequest
		if in, p = parseForce(r, body); p == nil {
			out, refused := perform(r.Context(), a, forceOperation, in, a.forceRelease)
			if refused == nil {
				a.renderForced(w, r, c, out.Body.(*forced))
				return
			}
			p = refused
		}
	}
	a.refuseView(w, r, p)
}

// enterLock admits a request about the lock that its query names.
func (a *API) enterLock(op operation, w http.ResponseWriter, r *http.Request) (*call, io.Reader, *Problem) {
	name := r.URL.Query().Get("key")
	r.SetPathValue("key", name)
	body, p := a.enter(op, w, r)
	if p == nil && name == "" {
		p = invalid("query.key", "key is empty")
	}
	return callOf(r.Context()), body, p
}

// parseForce reads a form, and returns what is wrong with it.
func parseForce(r *http.Request, body io.Reader) (*forceRequest, *Problem) {
	if !fromForm(r) {
		return nil, noOrigin()
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, problem(Malformed, "").because(err)
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, problem(Malformed, "The body is not a form.").because(err)
	}
	in := &forceRequest{}
	in.Body.FencingToken = digits(form.Get("fencingToken"))
	in.Body.Reason, in.Body.Mode = strings.TrimSpace(form.Get("reason")), form.Get("mode")
	switch n := utf8.RuneCountInString(in.Body.Reason); {
	case n == 0:
		return nil, invalid("reason", "a reason is needed")
	case n > maxReason || !utf8.ValidString(in.Body.Reason):
		return nil, invalid("reason", "the reason is over 512 characters, or not UTF-8")
	case in.Body.Mode != "safe" && in.Body.Mode != "now":
		return nil, invalid("mode", "the mode is neither safe nor now")
	}
	return in, nil
}

func (a *API) renderForced(w http.ResponseWriter, r *http.Request, c *call, done *forced) {
	a.render(w, r, http.StatusOK, "forced", "Force-release "+c.key, struct {
		Key, Back           string
		Notified, TokenOnly bool
	}{c.key, keyPath + "?" + lockQuery(c, c.key), done.Notified, done.ProtectedByToken})
}
