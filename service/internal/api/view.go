// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/service/internal/limit"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// The view is the page at / and what belongs to it: HTML for a browser, rendered here. It does only what its principal may
// do by JSON requests, under the same limits and with the same audit, and shows one thing more: the owners of waiters.
//
// A browser keeps the bearer token in a cookie that no script can read, and sends it with navigations and event streams
// too, which cannot carry a header. A cookie could be sent by pages of other sites as well: SameSite=Strict prevents that,
// and each form must come from this origin. The replica keeps no session, and a token that is withdrawn ends the cookie's use.
// The JSON requests ignore the cookie.

//go:embed view
var viewFiles embed.FS

var viewTemplates = template.Must(template.ParseFS(viewFiles, "view/page.html"))

const (
	tokenCookie = "lockkeeper-token"
	// viewPolicy allows nothing but the files and forms of this origin, and no script in a page.
	viewPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	maxLogin = 4 << 10 // of the form with a bearer token, which a stranger may send
)

// A screen is one page of HTML.
type screen struct {
	Title     string
	Principal string // empty if it is not known
	Roles     string
	Cookie    bool  // identified by the cookie, which signing out removes
	Now       int64 // ms since the epoch: ages are by the clock of the service
	Body      any   // what the template of the screen needs
}

func (a *API) registerView(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", view(a.viewLocks))
	mux.HandleFunc("POST /login", view(a.login))
	mux.HandleFunc("POST /logout", view(a.logout))
	mux.HandleFunc("GET "+keyPath, view(a.viewKey))
	mux.HandleFunc("GET "+forcePath, view(a.viewForce))
	mux.HandleFunc("POST "+forcePath, view(a.viewForced))
	mux.HandleFunc("GET "+actionsPath, view(a.viewActions))
	mux.HandleFunc("GET /events", view(a.viewEvents))
	for file, mediaType := range map[string]string{"page.js": "text/javascript", "page.css": "text/css"} {
		content, err := viewFiles.ReadFile("view/" + file)
		if err != nil {
			panic(err) // the file is a part of the program
		}
		mux.HandleFunc("GET /"+file, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType+"; charset=utf-8")
			_, _ = w.Write(content) // the caller has gone if this fails
		})
	}
}

// view returns a handler whose requests are identified by the cookie, and whose answers only this origin may use.
func view(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", viewPolicy)
		w.Header().Set("Referrer-Policy", "same-origin") // with no-referrer, a form would not name its origin
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		cookie, err := r.Cookie(tokenCookie)
		if err == nil && r.Header.Get("Authorization") == "" {
			token, _ := base64.RawURLEncoding.DecodeString(cookie.Value) // what is not valid identifies no principal
			r.Header.Set("Authorization", "Bearer "+string(token))
		}
		handle(w, r)
	}
}

// fromForm reports whether a form of this origin may have sent a request. The front door has refused other origins; here a
// request without any origin is refused too, as each browser names it.
func fromForm(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

func noOrigin() *Problem {
	return problem(Forbidden, "The request names no origin: it may not come from this page.")
}

// render writes a screen, or a refusal if its principal has left too many unread. Refusals and outcomes of actions are always written.
func (a *API) render(w http.ResponseWriter, r *http.Request, status int, name, title string, body any) {
	_, err := r.Cookie(tokenCookie)
	s := screen{Title: title, Cookie: err == nil, Now: time.Now().UnixMilli(), Body: body}
	c := callOf(r.Context())
	if c.principal != nil {
		s.Principal, s.Roles = c.principal.Name, roles(c.principal)
	}
	var page bytes.Buffer
	if err := viewTemplates.ExecuteTemplate(&page, name, s); err != nil {
		panic(fmt.Errorf("render %s: %w", name, err)) // the front door answers
	}
	if status == http.StatusOK && r.Method == http.MethodGet {
		if p := a.countUnread(c, limit.Any, page.Len()); p != nil {
			a.refuseView(w, r, p)
			return
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // the caller has gone if this fails
}

func roles(p *principal.Principal) string {
	names := make([]string, 0, len(p.Roles))
	for _, role := range p.Roles {
		names = append(names, string(role))
	}
	return strings.Join(names, ", ")
}

// refuseView answers with a problem as HTML: without valid credentials that is the form to sign in, also if its
// address has sent too many such requests.
func (a *API) refuseView(w http.ResponseWriter, r *http.Request, p *Problem) {
	c := callOf(r.Context())
	c.problem = p
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	// Behind a proxy, all callers have one address: the strangers among them must not hide the form.
	if c.principal == nil && (p.Code == Unauthenticated || p.Code == TooManyRequests) {
		message := ""
		if r.Header.Get("Authorization") != "" {
			message = "The token is not valid."
			setToken(w, r, "") // a client certificate, if there is one, counts again
		}
		a.render(w, r, p.Status, "login", "Sign in", message)
		return
	}
	a.render(w, r, p.Status, "problem", p.Title, struct {
		Problem       *Problem
		Request, Back string
	}{p, c.id, home(c.namespace)})
}

// home returns the URL of the page of a namespace.
func home(namespace string) string {
	if namespace == "" {
		return "/"
	}
	return "/?" + url.Values{"namespace": {namespace}}.Encode()
}

// login notes the token of a form in the cookie, if it is a principal's.
func (a *API) login(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	c.action = "view-login"
	if !fromForm(r) {
		a.refuseView(w, r, noOrigin())
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	token := r.PostFormValue("token") // empty if the body cannot be read: no principal has that
	r.Header.Set("Authorization", "Bearer "+token)
	if p := a.identify(c, operation{}, r); p != nil {
		a.refuseView(w, r, p)
		return
	}
	setToken(w, r, token)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// logout removes the cookie.
func (a *API) logout(w http.ResponseWriter, r *http.Request) {
	callOf(r.Context()).action = "view-logout"
	setToken(w, r, "")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// setToken sets the cookie for as long as the browser runs. An empty token removes it.
func setToken(w http.ResponseWriter, r *http.Request, token string) {
	cookie := &http.Cookie{
		Name: tokenCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(token)), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		// A proxy on the same host may end TLS. A browser drops a secure cookie that came in plain text.
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// actionsPath is the URL of the page of administrative actions.
const actionsPath = "/actions"

// keyPath is the URL of the page of one lock.
const keyPath = "/key"

const forcePath = "/force-release"
