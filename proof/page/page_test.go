// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const images = "../../docs/images/"

// screenshots are the pictures in docs/service-operation.md.
var screenshots = map[string]struct {
	width int64
	path  string
}{
	"page.png":       {1200, "/?namespace=team"},
	"page-phone.png": {390, "/key?namespace=team&key=orders"},
}

var update = flag.Bool("update", false, "make the screenshots in docs anew")

// The principals of the tests: each has the token of its name.
const principals = `{"principals": [
	{"name": "team", "tokens": ["%x"], "namespaces": ["team"], "roles": ["client"]},
	{"name": "ops", "tokens": ["%x"], "namespaces": ["*"], "roles": ["admin"]}
]}`

// A replica is a running service.
type replica struct {
	t    *testing.T
	url  string
	stop func()
}

func startReplica(t *testing.T) *replica {
	t.Helper()
	folder := t.TempDir()
	config := service.Config{
		Listen: "127.0.0.1:0", Servers: zktest.Start(t, nil).Addrs(), Principals: filepath.Join(folder, "principals.json"),
		TokenKeys: filepath.Join(folder, "keys"), Logger: slog.New(slog.DiscardHandler),
	}
	known := fmt.Appendf(nil, principals, sha256.Sum256([]byte("team")), sha256.Sum256([]byte("ops")))
	require.NoError(t, os.WriteFile(config.Principals, known, 0o600))
	require.NoError(t, os.WriteFile(config.TokenKeys, []byte(strings.Repeat("c0", 32)), 0o600))
	started, ended := make(chan string, 1), make(chan error, 1)
	config.Started = func(url string) { started <- url }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- service.Run(ctx, config) }()
	r := &replica{t: t, stop: func() { cancel(); require.NoError(t, <-ended) }}
	select {
	case r.url = <-started:
	case err := <-ended:
		require.NoError(t, err)
	}
	return r
}

// post sends a request of the client, and returns the answer.
func (r *replica) post(path, body string) map[string]any {
	r.t.Helper()
	fields, err := r.try(r.t.Context(), path, body)
	require.NoError(r.t, err)
	return fields
}

func (r *replica) try(ctx context.Context, path, body string) (fields map[string]any, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer team")
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // the answer was read by then
	err = json.NewDecoder(res.Body).Decode(&fields)
	return fields, err
}

func TestBrowserShowsChangesWithoutReload(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	defer r.stop()
	b.signIn(r.url, "team")
	b.open("team")
	b.shows("#rows", "No lock is held.")

	held := r.post("locks/team/orders/acquire", `{"ownerId": "worker-1", "requestId": "a", "ttlMillis": 600000}`)
	b.shows("#rows", "worker-1")
	waited := make(chan map[string]any, 1)
	wait := func() map[string]any {
		return r.post("locks/team/orders/acquire", `{"ownerId": "worker-2", "requestId": "b", "ttlMillis": 600000, "waitMillis": 600000}`)
	}
	go func() { waited <- wait() }()
	b.shows("#rows ol", "worker-2")
	r.post("elections/team/reports/campaign", `{"ownerId": "worker-3", "requestId": "c", "value": "10.0.0.3:8080", "ttlMillis": 600000}`)
	b.shows("#rows", "leader, publishes 10.0.0.3:8080")
	require.NotContains(t, b.text("body"), "Force-release", "a client may not")

	r.post("locks/team/orders/release", fmt.Sprintf(`{"ownerId": "worker-1", "lockToken": %q}`, held["lockToken"]))
	granted := <-waited
	if granted["position"] != nil {
		granted = wait() // the service answered after 20 s, before the release
	}
	require.Contains(t, granted, "lockToken")
	b.shows("#rows td", "worker-2")
	b.shows("#rows tr td:nth-child(5)", "empty")

	b.do(chromedp.Click("header button"))
	b.shows("h2", "Sign in")
}

func TestAdminReleasesByForceWithReason(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	defer r.stop()
	const hostile = `<img src=x onerror=document.title=1>`
	held := r.post("locks/team/orders%2Feu/acquire", `{"ownerId": "worker-1", "requestId": "a", "ttlMillis": 600000}`)
	r.post("locks/team/stock/acquire", `{"ownerId": "`+hostile+`", "requestId": "b", "ttlMillis": 600000}`)
	r.post("elections/team/reports/campaign", `{"ownerId": "worker-3", "requestId": "c", "value": "10.0.0.3:8080", "ttlMillis": 600000}`)
	b.signIn(r.url, "ops")
	b.open("team")
	b.shows("#rows", hostile)
	b.open("orders/eu")
	b.shows("dl", held["fencingToken"].(string))
	b.follow(`//a[text()="Force-release"]`)
	b.shows("h2", "Force-release orders/eu")
	b.shows(".warning", "Only a resource that")

	b.do(chromedp.Click("main button"))
	b.shows("h2", "Force-release orders/eu") // the browser asks for the reason
	b.do(chromedp.SendKeys("#reason", "worker-1 hangs"), chromedp.Click("main button"))
	b.shows("main p", "The holder of orders/eu is notified.")
	refused := r.post("locks/team/orders%2Feu/renew", fmt.Sprintf(`{"ownerId": "worker-1", "lockToken": %q}`, held["lockToken"]))
	require.Equal(t, "LOCK_REVOKED", refused["code"])
	require.Equal(t, "ops", refused["revokedBy"])
	require.Equal(t, "worker-1 hangs", refused["reason"])

	b.open("orders/eu")
	b.shows("#rows dd", "asked to stop")
	b.shows("#rows tbody", "worker-1 hangs")
	b.open("Locks of team")
	b.open("stock")
	b.follow(`//a[text()="Force-release"]`)
	b.shows("h2", "Force-release stock")
	b.do(chromedp.SendKeys("#reason", "stuck"), chromedp.Click("#now"), chromedp.Click("main button"))
	b.shows("main p", "only the fencing token protects the resource")
}

func TestPageRunsNoScriptButItsOwn(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	defer r.stop()
	b.signIn(r.url, "team")
	b.open("team")
	const insert = `new Promise(done => {
		document.addEventListener("securitypolicyviolation", event => done(event.violatedDirective));
		document.querySelector("#rows").innerHTML = '<tr><td><img src="data:x" onerror="document.title=1">';
	})`
	directive, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](insert, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	require.Equal(t, "script-src-attr", directive)
	cookies, err := b.evaluate("document.cookie")
	require.NoError(t, err)
	require.Empty(t, cookies, "scripts cannot read the token")
}

func TestPageReportsThatItIsNotLive(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	b.signIn(r.url, "team")
	b.live()
	r.stop()
	b.shows("#state", "Not live: connecting again.")
}

// The rows of the first page change without a reload, too.
func TestFirstPageCountsTheLocksOfEachNamespace(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	defer r.stop()
	b.signIn(r.url, "ops")
	b.shows("#rows", "No namespace has a lock.")
	r.post("locks/team/orders/acquire", `{"ownerId": "worker-1", "requestId": "a"}`)
	b.shows("#rows th", "team")
	b.shows("#rows td", "1")
	b.shows("#rows time", " s")
}

// A user in Kathmandu sees ages, and on hover the time there.
func TestTimesAreAgesAndExactOnHoverInTheZoneOfTheReader(t *testing.T) {
	t.Parallel()
	b := openBrowser(t, "TZ=Asia/Kathmandu")
	r := startReplica(t)
	defer r.stop()
	r.post("locks/team/orders/acquire", `{"ownerId": "worker-1", "requestId": "a", "ttlMillis": 600000}`)
	b.signIn(r.url, "team")
	b.open("team")
	b.shows(`[data-label="Held for"]`, " s")
	b.shows(`[data-label="Lease ends"]`, "in 9 min ")
	title, err := b.evaluate(`document.querySelector('[data-label="Lease ends"] time').title`)
	require.NoError(t, err)
	require.Contains(t, title, "GMT+5:45")
}

// fill lets contenders use two namespaces, and returns a function that ends the waits.
func fill(r *replica) (end func()) {
	r.t.Helper()
	r.post("elections/team/reports/campaign", `{"ownerId": "reporter-1", "requestId": "a", "value": "10.0.0.3:8080", "ttlMillis": 600000}`)
	r.post("locks/team/"+longKey+"/acquire", `{"ownerId": "billing-2", "requestId": "b", "ttlMillis": 600000}`)
	r.post("locks/team/orders/acquire", `{"ownerId": "worker-1", "requestId": "c", "ttlMillis": 600000}`)
	ctx, cancel := context.WithCancel(r.t.Context())
	var waits sync.WaitGroup
	for _, owner := range []string{"worker-2", "worker-3"} {
		waits.Go(func() {
			for { // the service answers after 20 s; a retry keeps the position
				answer, err := r.try(ctx, "locks/team/orders/acquire", `{"ownerId": "`+owner+`", "requestId": "d", "waitMillis": 600000}`)
				if err != nil {
					assert.ErrorIs(r.t, err, context.Canceled)
					return
				}
				if !assert.Contains(r.t, answer, "position") {
					return
				}
			}
		})
	}
	return func() {
		cancel()
		waits.Wait()
		r.stop()
	}
}

const longKey = "invoices%2Feu-central-1%2F2026-11"

// faults are what a reader of a page would complain about: content beside the window, and words that are broken although they fit.
const faults = `(() => {
	const found = [];
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways");
	for (const cell of document.querySelectorAll("#rows td, #rows th, #rows dd, #rows li, main a, main button")) {
		const box = cell.getBoundingClientRect();
		if (!box.width || box.left < 0 || box.right > innerWidth + 0.5) found.push("not in the window: " + cell.textContent);
	}
	for (const text of document.querySelectorAll("#rows bdi, #rows time")) {
		if (text.getClientRects().length > 1) found.push("broken: " + text.textContent);
	}
	return found.join("; ");
})()`

func TestPageFitsAPhoneAndADesk(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	defer fill(r)()
	b.signIn(r.url, "ops")
	for _, width := range []int64{390, 1200} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, page := range []struct{ path, shows string }{
			{"/", "team"},
			{"/?namespace=team", "worker-3"},
			{"/key?namespace=team&key=orders", "worker-3"},
			{"/key?namespace=team&key=" + longKey, "billing-2"},
		} {
			b.visit(r.url + page.path)
			b.shows("#rows", page.shows)
			b.live()
			found, err := b.evaluate(faults)
			require.NoError(t, err)
			require.Empty(t, found, "%s at %d pixels", page.path, width)
		}
	}
}

// With -update the test makes the pictures anew.
func TestScreenshotsOfDocsAreSmall(t *testing.T) {
	if *update {
		b := openBrowser(t)
		r := startReplica(t)
		defer fill(r)()
		b.signIn(r.url, "ops")
		for name, page := range screenshots {
			b.do(chromedp.EmulateViewport(page.width, 100))
			b.visit(r.url + page.path)
			b.shows("#rows", "worker-3")
			b.live()
			png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(images+name, png, 0o644))
		}
	}
	for name := range screenshots {
		content, err := os.ReadFile(images + name)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(content, []byte("\x89PNG")))
		require.Less(t, len(content), 100_000)
	}
}
