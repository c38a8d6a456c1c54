// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
)

const (
	forceURL    = "/force-release?key=a%2Fb&namespace=own"
	keyURL      = "/key?key=a%2Fb&namespace=own"
	forceFields = "fencingToken=41&reason=stuck&mode=safe"
)

// A browser sends requests as a browser does: with the cookie of a principal, and from pages of an origin.
type browser struct {
	f      *fixture
	cookie string // the token in it; empty: none
	from   http.Header
}

var ownOrigin = http.Header{"Sec-Fetch-Site": {"same-origin"}}

func (b browser) send(method, path, form string) *response {
	b.f.t.Helper()
	req, err := http.NewRequestWithContext(b.f.t.Context(), method, b.f.server.URL+path, strings.NewReader(form))
	require.NoError(b.f.t, err)
	for name, values := range b.from {
		req.Header[name] = values
	}
	if b.cookie != "" {
		req.AddCookie(&http.Cookie{Name: "lockkeeper-token", Value: base64.RawURLEncoding.EncodeToString([]byte(b.cookie))})
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := *b.f.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req)
	require.NoError(b.f.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(b.f.t, err)
	require.NoError(b.f.t, res.Body.Close())
	return &response{res.StatusCode, res.Header, body}
}

// elements returns the names of the elements of HTML, whose tags must be balanced. Attributes of scripts are a part of the name.
func elements(t *testing.T, html string) []string {
	t.Helper()
	void := []string{"meta", "link", "input", "br"}
	decoder := xml.NewDecoder(strings.NewReader(html))
	decoder.Strict, decoder.Entity = false, xml.HTMLEntity
	var found, open []string
	for {
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			require.Empty(t, open, html)
			return found
		}
		require.NoError(t, err, html)
		switch token := token.(type) {
		case xml.StartElement:
			name := token.Name.Local
			for _, attribute := range token.Attr {
				require.False(t, strings.HasPrefix(attribute.Name.Local, "on") || attribute.Name.Local == "style", html)
			}
			if !slices.Contains(void, name) {
				open = append(open, name)
			}
			if name == "script" {
				name += fmt.Sprint(token.Attr)
			}
			found = append(found, name)
		case xml.EndElement:
			require.NotEmpty(t, open, html)
			require.Equal(t, open[len(open)-1], token.Name.Local, html)
			open = open[:len(open)-1]
		}
	}
}

// hostile is a holder whose texts are HTML.
func hostile() lease.Contender {
	h := held
	h.Owner = `<script>alert(1)</script>`
	h.Lease = &lease.Lease{Metadata: map[string]string{"value": `"><img src=x onerror=alert(2)>`}}
	return h
}

func TestPagesAreWellFormedAndEscaped(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		waiter := lease.Contender{Contender: recipes.Contender{Owner: `</ol></table><script>alert(3)</script>`, Token: 42}}
		f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{hostile(), waiter}}})
		admin := browser{f, "admin", ownOrigin}
		for _, c := range []struct {
			who                browser
			method, path, form string
			status             int
		}{
			{browser{f: f}, "GET", "/", "", 401},
			{browser{f: f, cookie: "<b>"}, "GET", "/", "", 401},
			{browser{f: f, cookie: "both"}, "GET", "/", "", 200},
			{admin, "GET", `/?namespace=own&prefix=%22%3E%3Cscript%3E&page=`, "", 200},
			{admin, "GET", "/?namespace=%3Cscript%3E", "", 403},
			{browser{f: f, cookie: "both"}, "GET", "/?namespace=%3Cscript%3E", "", 422},
			{admin, "GET", "/?page=%2F", "", 422},
			{admin, "GET", "/key?namespace=own&key=%3Cscript%3E", "", 200},
			{admin, "GET", "/key?namespace=own", "", 422},
			{admin, "GET", "/key?key=a", "", 403},
			{admin, "GET", "/key?namespace=other&key=a", "", 403},
			{browser{f: f}, "GET", "/key?namespace=own&key=a", "", 401},
			{admin, "GET", "/?namespace=own&page=%2F", "", 422},
			{admin, "GET", "/force-release?namespace=own&key=%3Cscript%3E", "", 200},
			{admin, "GET", "/force-release?namespace=own", "", 422},
			{admin, "POST", "/force-release?namespace=own&key=%3Cscript%3E", forceFields, 200},
			{admin, "GET", "/actions?namespace=own", "", 200},
			{admin, "GET", "/actions", "", 200},
			{admin, "GET", "/actions?namespace=other", "", 403},
			{browser{f: f, cookie: "client"}, "GET", "/actions", "", 403},
			{browser{f: f}, "GET", "/actions", "", 401},
			{admin, "POST", forceURL, "fencingToken=41&reason=+&mode=safe", 422},
			{admin, "POST", forceURL, "fencingToken=41&reason=stuck&mode=%3Cscript%3E", 422},
			{admin, "POST", forceURL, "fencingToken=%3Cscript%3E&reason=stuck&mode=safe", 422},
		} {
			r := c.who.send(c.method, c.path, c.form)
			require.Equal(t, c.status, r.status, "%s: %s", c.path, r.body)
			require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"))
			require.Contains(t, r.header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';")
			require.NotContains(t, r.header.Get("Content-Security-Policy"), "unsafe")
			require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))
			require.Equal(t, "no-store", r.header.Get("Cache-Control"))
			names := elements(t, string(r.body))
			require.NotContains(t, names, "img")
			scripts := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "script") })
			require.Equal(t, []string{"script[{{ src} /page.js} {{ defer} defer}]"}, scripts)
		}
		body := string(admin.send("GET", "/?namespace=own", "").body)
		require.Contains(t, body, "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>")
		require.Contains(t, body, "<bdi>&#34;&gt;&lt;img src=x onerror=alert(2)&gt;</bdi>")
		require.Contains(t, body, "<li><bdi>&lt;/ol&gt;&lt;/table&gt;")
		body = string(admin.send("GET", "/key?namespace=own&key=a", "").body)
		require.Contains(t, body, "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>")
		require.Contains(t, body, "<dt><bdi>value</bdi></dt><dd><bdi>&#34;&gt;&lt;img src=x onerror=alert(2)&gt;</bdi>")
		require.Contains(t, body, "<li><bdi>&lt;/ol&gt;&lt;/table&gt;")
		require.Contains(t, body, `<td data-label="Reason"><bdi>stuck</bdi></td>`)
		body = string(admin.send("GET", "/actions", "").body)
		require.Contains(t, body, "<bdi>own/&lt;script&gt;</bdi>")
		require.Contains(t, body, `<td data-label="Outcome">done</td>`)
		for path, mediaType := range map[string]string{"/page.js": "text/javascript", "/page.css": "text/css"} {
			file := browser{f: f}.send("GET", path, "")
			require.Equal(t, 200, file.status)
			require.Equal(t, mediaType+"; charset=utf-8", file.header.Get("Content-Type"))
		}
	})
}

func TestPageOffersWhatTheRoleAllows(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{held, {Contender: recipes.Contender{Owner: "next"}}}}})
		stranger := browser{f, "", ownOrigin}
		for _, path := range []string{"/", "/?namespace=own", keyURL, forceURL} {
			r := stranger.send("GET", path, "")
			require.Equal(t, 401, r.status)
			require.Contains(t, string(r.body), `action="/login"`)
			require.NotContains(t, string(r.body), "w0")
		}
		require.Equal(t, 401, stranger.send("GET", "/events?namespace=own", "").status)
		require.Zero(t, f.locks.count(), "a stranger causes no request to ZooKeeper")

		client := browser{f, "client", ownOrigin}
		first := client.send("GET", "/", "")
		require.Equal(t, 200, first.status)
		require.Contains(t, string(first.body), `<th scope="row"><a href="/?namespace=own">own</a></th>`)
		require.NotContains(t, string(first.body), "/actions")
		rows := client.send("GET", "/?namespace=own", "")
		for _, shown := range []string{`<a href="/key?key=a%2Fb&amp;namespace=own"><bdi>a/b</bdi></a>`, "w0", "leader, publishes", "10.0.0.1:80", "next", "(client)"} {
			require.Contains(t, string(rows.body), shown)
		}
		require.NotContains(t, string(rows.body), "/actions")
		key := string(client.send("GET", keyURL, "").body)
		for _, shown := range []string{"w0", "<dd>41</dd>", "<li><bdi>next</bdi>", `<a href="/?namespace=own">`} {
			require.Contains(t, key, shown)
		}
		require.NotContains(t, key, "Force-release")
		require.Equal(t, 403, client.send("GET", "/?namespace=other", "").status)
		require.Equal(t, 403, client.send("GET", forceURL, "").status)
		require.Equal(t, 403, client.send("POST", forceURL, forceFields).status)
		require.NotContains(t, f.locks.calls, "force-release")

		admin := browser{f, "admin", ownOrigin}
		require.Contains(t, string(admin.send("GET", keyURL, "").body), `href="/force-release?key=a%2Fb&amp;namespace=own"`)
		require.Contains(t, string(admin.send("GET", "/?namespace=own", "").body), `href="/actions?namespace=own"`)
		form := string(admin.send("GET", forceURL, "").body)
		require.Contains(t, form, `name="fencingToken" value="41"`)
		require.Contains(t, form, "Warning: with mode now")
		require.Equal(t, 403, admin.send("POST", "/force-release?key=k&namespace=other", forceFields).status)
		require.NotContains(t, f.locks.calls, "force-release")
		done := admin.send("POST", forceURL, forceFields)
		require.Equal(t, 200, done.status)
		require.Contains(t, string(done.body), "is notified")
		require.Contains(t, f.locks.calls, "force-release")
		require.Contains(t, f.audit.String(), `"reason":"stuck"`)
		require.NotContains(t, f.log.String()+f.audit.String(), base64.RawURLEncoding.EncodeToString([]byte("admin")), "the cookie is a secret")
	})
}

func TestFormOfAnotherOriginIsRefused(t *testing.T) {
	for name, from := range map[string]http.Header{
		"another site":               {"Sec-Fetch-Site": {"cross-site"}},
		"another port of this host":  {"Sec-Fetch-Site": {"same-site"}},
		"another origin, by its URL": {"Origin": {"http://evil.example"}},
		"a sandboxed frame":          {"Origin": {"null"}},
		"no origin":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, &scripted{})
			b := browser{f, "admin", from}
			require.Equal(t, 403, b.send("POST", forceURL, forceFields).status)
			login := b.send("POST", "/login", "token=client")
			require.Equal(t, 403, login.status)
			require.Empty(t, login.header.Values("Set-Cookie"))
			require.Zero(t, f.locks.count())
		})
	}
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		own := http.Header{"Origin": {f.server.URL}} // in plain text, a browser sends no Sec-Fetch-Site
		require.Equal(t, 200, browser{f, "admin", own}.send("POST", forceURL, forceFields).status)
	})
}

func TestTokenOfTheCookieIsOfUseToThePageOnly(t *testing.T) {
	f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{held}}})
	stranger := browser{f, "", ownOrigin}
	refused := stranger.send("POST", "/login", "token=wrong")
	require.Equal(t, 401, refused.status)
	require.Contains(t, string(refused.body), "The token is not valid.")
	require.NotContains(t, string(refused.body), "wrong")
	require.Equal(t, 401, stranger.send("POST", "/login", "token="+strings.Repeat("x", 5000)).status)

	in := stranger.send("POST", "/login", "token=client")
	require.Equal(t, 303, in.status)
	cookie, err := http.ParseSetCookie(in.header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Zero(t, cookie.MaxAge)
	require.False(t, cookie.Secure, "the test's connection is plain text")
	encrypted := http.Header{"Sec-Fetch-Site": {"same-origin"}, "X-Forwarded-Proto": {"https"}}
	require.Contains(t, browser{f, "", encrypted}.send("POST", "/login", "token=client").header.Get("Set-Cookie"), "; Secure;")

	client := browser{f, "client", ownOrigin}
	require.Equal(t, 200, client.send("GET", "/?namespace=own", "").status)
	require.Equal(t, 401, client.send("GET", "/v1/locks/own/orders", "").status, "JSON requests ignore the cookie")

	require.Contains(t, string(client.send("GET", "/?namespace=own", "").body), "Sign out")
	byHeader := f.send("client", "GET", "/?namespace=own", "")
	require.NotContains(t, string(byHeader.body), "Sign out", "there is no cookie to remove")
	out := client.send("POST", "/logout", "")
	require.Equal(t, 303, out.status)
	require.Contains(t, out.header.Get("Set-Cookie"), "Max-Age=0")
	stale := browser{f, "withdrawn", ownOrigin}.send("GET", "/", "")
	require.Equal(t, 401, stale.status)
	require.Contains(t, stale.header.Get("Set-Cookie"), "Max-Age=0")
}

func TestKeyIsHeldSinceItsGrant(t *testing.T) {
	joined, granted := time.UnixMilli(1_000_000).UTC(), time.UnixMilli(2_000_000).UTC()
	holder := held
	holder.Since = joined
	f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{holder}, More: 7}})
	client := browser{f, "client", ownOrigin}
	require.Contains(t, string(client.send("GET", keyURL, "").body), `<dt>Held for</dt><dd><time datetime="1970-01-01T00:16:40.000Z">`)
	f.past.Add("own", "a/b", history.Entry{Action: history.Acquired, Token: 41, Owner: "w0", Time: granted})
	require.Contains(t, string(client.send("GET", keyURL, "").body), `<dt>Held for</dt><dd><time datetime="1970-01-01T00:33:20.000Z">`)
}

// Behind a proxy, all callers have one address.
func TestStrangersDoNotHideTheFormToSignIn(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		for range 100 {
			require.Equal(t, "UNAUTHENTICATED", f.send("stranger", http.MethodGet, "/v1/locks/own/orders", "").code(t))
		}
		logged := f.log.String()
		r := browser{f: f}.send(http.MethodGet, "/", "")
		require.Equal(t, http.StatusTooManyRequests, r.status)
		require.NotEmpty(t, r.header.Get("Retry-After"))
		require.Contains(t, string(r.body), `type="password"`)
		require.Equal(t, logged, f.log.String(), "strangers must not fill the disk")
		require.Equal(t, http.StatusOK, browser{f: f, cookie: "both"}.send(http.MethodGet, "/", "").status)
	})
}
