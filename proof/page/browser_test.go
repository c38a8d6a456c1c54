// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// findBrowser returns Chromium, installed or unpacked by chromium.sh. Without it the test is skipped. If CI is set it
// fails, so that a green CI run has skipped none of these tests.
func findBrowser(t *testing.T) (program string, env []string) {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	root := filepath.Join(cache, "lockkeeper", "chromium")
	program = filepath.Join(root, "usr/lib/chromium/chromium-headless-shell")
	if _, err := os.Stat(program); err != nil {
		need.Lacking(t, "Chromium is missing: `make browser` gets it from Debian's packages: %v", err)
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	require.NoError(t, err)
	pulse, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*", "pulseaudio"))
	require.NoError(t, err)
	return program, []string{"LD_LIBRARY_PATH=" + strings.Join(append(libraries, pulse...), ":")}
}

// A browser is one Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// openBrowser starts Chromium, with additional environment variables. It ends with the test.
func openBrowser(t *testing.T, additional ...string) *browser {
	t.Helper()
	program, env := findBrowser(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.Env(append(env, additional...)...), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1000, 460),
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("no-proxy-server", true),
		// The sandbox needs user namespaces, which containers and root do not have. The browser loads only this test's pages.
		chromedp.NoSandbox,
	)
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	b := &browser{t, ctx}
	b.do() // the first call starts the program, which ends with the context
	return b
}

// patience bounds each wait. No test measures it.
const patience = 3 * time.Minute

// do carries out actions.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if len(actions) == 0 {
		ctx = b.ctx
	}
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// repeat carries out an action until that succeeds.
func (b *browser) repeat(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.EventuallyWithT(b.t, func(t *assert.CollectT) {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		require.NoError(t, chromedp.Do(ctx, action))
	}, 2*patience, 10*time.Millisecond)
}

// visit opens a page. Chromium gives up if a network interface appears meanwhile, for the servers of another test.
func (b *browser) visit(url string) {
	b.t.Helper()
	b.repeat(chromedp.Navigate(url))
}

// follow clicks on a link, which the page may replace between its discovery and the click.
func (b *browser) follow(link string) {
	b.t.Helper()
	b.repeat(chromedp.Click(link))
}

// evaluate returns the value of an expression in the page, as text.
func (b *browser) evaluate(expression string) (string, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
}

// text returns the text of an element, empty if there is none.
func (b *browser) text(selector string) string {
	text, err := b.evaluate(`document.querySelector(` + strconv.Quote(selector) + `)?.textContent ?? ""`)
	if err != nil {
		return "" // the page is being replaced
	}
	return text
}

// becomes waits until an expression has a value.
func (b *browser) becomes(expression, value string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		is, err := b.evaluate(expression)
		if is == value {
			return
		}
		require.True(b.t, time.Now().Before(end), "%s is %q, not %q: %v", expression, is, value, err)
	}
}

// shows waits until the text of an element contains a text. It asks again and again, as the policy of the page
// forbids the script that chromedp's own polling needs.
func (b *browser) shows(selector, text string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		shown := b.text(selector)
		if strings.Contains(shown, text) {
			return
		}
		require.True(b.t, time.Now().Before(end), "%s does not show %q but %q, in: %s", selector, text, shown, b.text("body"))
		if at, err := b.evaluate("location.protocol"); err == nil && at == "chrome-error:" {
			b.repeat(chromedp.Reload()) // as in visit, after a link
		}
	}
}

// signIn signs a principal in at the page of a replica.
func (b *browser) signIn(url, token string) {
	b.t.Helper()
	b.visit(url)
	b.do(chromedp.SendKeys("#token", token), chromedp.Click("main button"))
	b.shows("header", "Signed in as "+token)
}

// open follows a link, and waits until the page that it opens is live.
func (b *browser) open(link string) {
	b.t.Helper()
	selector := `//main//a[normalize-space()=` + strconv.Quote(link) + `]`
	b.do(chromedp.WaitVisible(selector))
	b.follow(selector)
	b.shows("h2", strings.TrimPrefix(link, "Locks of "))
	b.live()
}

// live waits until the page follows its events. It reloads a page without its script, which Chromium gives up, as in visit.
func (b *browser) live() {
	b.t.Helper()
	loaded := time.Now()
	for end := loaded.Add(patience); ; time.Sleep(20 * time.Millisecond) {
		state := b.text("#state")
		if strings.HasPrefix(state, "Live") {
			return
		}
		require.True(b.t, time.Now().Before(end), "the page is not live: %q, in: %s", state, b.text("body"))
		if state == "Not live: reload to refresh." && time.Since(loaded) > 10*time.Second {
			b.repeat(chromedp.Reload())
			loaded = time.Now()
		}
	}
}
