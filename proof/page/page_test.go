// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// screenshot is the picture in docs/service-operation.md.
const screenshot = "../../docs/images/page.png"

var update = flag.Bool("update", false, "make the screenshot in docs anew")

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
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/"+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer team")
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, res.Body.Close())
	var fields map[string]any
	require.NoError(r.t, json.Unmarshal(text, &fields), "%s", text)
	return fields
}

func TestBrowserShowsChangesWithoutReload(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	defer r.stop()
	b.signIn(r.url, "team")
	b.shows("#state", "Live")
	b.shows("#rows", "No lock is held.")

	held := r.post("locks/team/orders/acquire", `{"ownerId": "worker-1", "requestId": "a", "ttlMillis": 600000}`)
	b.shows("#rows", "worker-1")
	b.shows("#rows", held["fencingToken"].(string))
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
	b.do(chromedp.SendKeys("#namespace", "team"), chromedp.Click(".filter button"))
	b.shows("#state", "Live")
	b.shows("#rows", hostile)
	b.do(chromedp.Click(`//a[@aria-label="Force-release orders/eu"]`))
	b.shows("h2", "Force-release orders/eu")
	require.Contains(t, b.text(".warning"), "Only a resource that")

	b.do(chromedp.Click("main button"))
	b.shows("h2", "Force-release orders/eu") // the browser asks for the reason
	b.do(chromedp.SendKeys("#reason", "worker-1 hangs"), chromedp.Click("main button"))
	b.shows("main p", "The holder of orders/eu is notified.")
	refused := r.post("locks/team/orders%2Feu/renew", fmt.Sprintf(`{"ownerId": "worker-1", "lockToken": %q}`, held["lockToken"]))
	require.Equal(t, "LOCK_REVOKED", refused["code"])
	require.Equal(t, "ops", refused["revokedBy"])
	require.Equal(t, "worker-1 hangs", refused["reason"])

	b.do(chromedp.Click("main a"))
	b.shows("#rows td", "asked to stop")
	b.shows("#state", "Live")
	b.do(chromedp.Click(`//a[@aria-label="Force-release stock"]`))
	b.shows("dd", "stock")
	b.do(chromedp.SendKeys("#reason", "stuck"), chromedp.Click("#now"), chromedp.Click("main button"))
	b.shows("main p", "only the fencing token protects the resource")
}

func TestPageRunsNoScriptButItsOwn(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	r := startReplica(t)
	defer r.stop()
	b.signIn(r.url, "team")
	b.shows("#state", "Live")
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
	b.shows("#state", "Live")
	r.stop()
	b.shows("#state", "Not live: connecting again.")
}

// With -update the test makes the picture anew.
func TestScreenshotOfDocsIsSmall(t *testing.T) {
	if *update {
		picture(t)
	}
	content, err := os.ReadFile(screenshot)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(content, []byte("\x89PNG")))
	require.Less(t, len(content), 200_000)
}

func picture(t *testing.T) {
	t.Helper()
	b := openBrowser(t)
	r := startReplica(t)
	r.post("elections/team/reports/campaign", `{"ownerId": "reporter-1", "requestId": "a", "value": "10.0.0.3:8080"}`)
	r.post("locks/team/invoices%2Feu/acquire", `{"ownerId": "billing-2", "requestId": "b", "ttlMillis": 600000}`)
	r.post("locks/team/orders/acquire", `{"ownerId": "worker-1", "requestId": "c", "ttlMillis": 60000}`)
	waits := make(chan map[string]any)
	for _, owner := range []string{"worker-2", "worker-3"} {
		go func() {
			waits <- r.post("locks/team/orders/acquire", `{"ownerId": "`+owner+`", "requestId": "d", "waitMillis": 20000}`)
		}()
	}
	defer func() {
		r.stop() // answers them
		<-waits
		<-waits
	}()
	b.signIn(r.url, "ops")
	b.do(chromedp.SendKeys("#namespace", "team"), chromedp.Click(".filter button"))
	b.shows("#state", "Live")
	b.shows("#rows li + li", "worker-")
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(screenshot), 0o755))
	require.NoError(t, os.WriteFile(screenshot, png, 0o644))
}
