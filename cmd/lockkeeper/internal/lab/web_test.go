// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client sends requests to the handler of a laboratory that does not run.
type client struct {
	t       *testing.T
	lab     *Lab
	handler http.Handler
	runs    []string // presets
	busy    bool
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{t: t, lab: New()}
	c.handler = c.lab.handler(infoOf([]string{"127.0.0.1:2181"}, "http://127.0.0.1:8080"), func(p *Preset, _ uint64) error {
		if c.busy {
			return errors.New("busy")
		}
		c.runs = append(c.runs, p.Name)
		return nil
	})
	return c
}

// send returns the answer to a request for a host, from a page of an origin. Both may be empty.
func (c *client) send(method, target, host, origin, body string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, target, strings.NewReader(body))
	r.Host = host
	if host == "" {
		r.Host = "127.0.0.1:8090"
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

// refusal returns the error in an answer.
func refusal(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var body map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body)
	return body["error"]
}

func TestPageIsServedWithPolicyThatRunsItsOwnScriptOnly(t *testing.T) {
	c := newClient(t)
	for file, want := range map[string]string{"/": "<title>Laboratory", "/lab.js": "EventSource", "/lab.css": "prefers-color-scheme"} {
		w := c.send(http.MethodGet, file, "", "", "")
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), want)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
	}
}

func TestPagesOfOtherOriginsCannotAct(t *testing.T) {
	c := newClient(t)
	for _, target := range []string{"/api/actions", "/api/presets/paused-leader?seed=1"} {
		require.Equal(t, http.StatusForbidden, c.send(http.MethodPost, target, "", "http://example.com", `{"do": "kill", "who": "a"}`).Code)
	}
	require.Empty(t, c.runs)
	require.Equal(t, http.StatusAccepted, c.send(http.MethodPost, "/api/presets/paused-leader?seed=1", "", "http://127.0.0.1:8090", "").Code)
	require.Equal(t, []string{"paused-leader"}, c.runs)
}

// A name of another site that resolves to this machine would make its page one of the same origin.
func TestOnlyNamesOfThisMachineAreServed(t *testing.T) {
	c := newClient(t)
	for host, want := range map[string]int{
		"127.0.0.1:8090": http.StatusOK, "localhost:8090": http.StatusOK, "[::1]:8090": http.StatusOK, "localhost": http.StatusOK,
		"example.com": http.StatusForbidden, "example.com:8090": http.StatusForbidden, "192.0.2.1:8090": http.StatusForbidden,
	} {
		w := c.send(http.MethodGet, "/api/info", host, "", "")
		require.Equal(t, want, w.Code, host)
		if want == http.StatusForbidden {
			require.Contains(t, refusal(t, w), "is not a name of this machine")
		}
	}
}

func TestPresetThatDoesNotExistIsNotFoundAndOthersAreNamed(t *testing.T) {
	c := newClient(t)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := c.send(method, "/api/presets/nothing?seed=1", "", "", "")
		require.Equal(t, http.StatusNotFound, w.Code)
		require.Contains(t, refusal(t, w), `preset "nothing" does not exist: must be one of paused-leader, `)
	}
	w := c.send(http.MethodGet, "/api/presets/paused-leader?seed=4", "", "", "")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, refusal(t, w), `was not recorded with seed "4": recorded are 1, 2, 3`)
	w = c.send(http.MethodPost, "/api/presets/paused-leader?seed=four", "", "", "")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Empty(t, c.runs)
}

func TestRecordingIsAnsweredForEachPresetOfThePage(t *testing.T) {
	c := newClient(t)
	var info Info
	require.NoError(t, json.Unmarshal(c.send(http.MethodGet, "/api/info", "", "", "").Body.Bytes(), &info))
	require.Len(t, info.Presets, len(presets))
	for _, p := range info.Presets {
		var r Recording
		require.NoError(t, json.Unmarshal(c.send(http.MethodGet, "/api/presets/"+p.Name+"?seed=3", "", "", "").Body.Bytes(), &r))
		require.Equal(t, uint64(3), r.Seed)
		require.NotEmpty(t, r.Events)
	}
}

func TestBadActionIsRefusedInJSON(t *testing.T) {
	c := newClient(t)
	require.Contains(t, refusal(t, c.send(http.MethodPost, "/api/actions", "", "", `{"do": "fly"}`)), "fly: no such action")
	require.Contains(t, refusal(t, c.send(http.MethodPost, "/api/actions", "", "", `kill a`)), "read the action: ")
	require.Contains(t, refusal(t, c.send(http.MethodPost, "/api/actions", "", "", `{"do": "`+strings.Repeat("x", maxRequest)+`"}`)), "too large")
	c.busy = true
	w := c.send(http.MethodPost, "/api/presets/paused-leader?seed=1", "", "", "")
	require.Equal(t, http.StatusConflict, w.Code)
	require.Equal(t, "busy", refusal(t, w))
}

// firstBatch returns the first message of the stream, for a browser that has an event, and the id of the message.
func firstBatch(t *testing.T, url, last string) (b batch, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/events", nil)
	require.NoError(t, err)
	r.Header.Set("Last-Event-ID", last)
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if text, found := strings.CutPrefix(line, "id: "); found {
			id = strings.TrimSpace(text)
		}
		if text, found := strings.CutPrefix(line, "data: "); found {
			require.NoError(t, json.Unmarshal([]byte(text), &b))
			return b, id
		}
	}
}

func TestStreamContinuesAfterTheLastEventOfTheBrowser(t *testing.T) {
	c := newClient(t)
	server := httptest.NewServer(c.handler)
	defer server.Close()
	all, id := firstBatch(t, server.URL, "")
	require.True(t, all.Reset)
	require.Equal(t, 1, all.Events[0].ID)
	c.lab.journal.add("a", kindInfo, "news", nil)
	news, _ := firstBatch(t, server.URL, id)
	require.False(t, news.Reset)
	require.Len(t, news.Events, 1)
	require.Equal(t, "news", news.Events[0].Text)
	for range keptEvents + 1 {
		c.lab.journal.add("a", kindInfo, "more", nil)
	}
	rest, _ := firstBatch(t, server.URL, id)
	require.True(t, rest.Reset, "some events that it has not seen were dropped")
	require.Equal(t, "", rest.Before[fenced+".value"])
	require.Len(t, rest.Events, keptEvents)
}

// Otherwise the page would show the end of the former laboratory as if it were live.
func TestBrowserOfFormerLaboratoryGetsAllEvents(t *testing.T) {
	former, present := newClient(t), newClient(t)
	server := httptest.NewServer(former.handler)
	_, id := firstBatch(t, server.URL, "")
	server.Close()
	server = httptest.NewServer(present.handler)
	defer server.Close()
	b, _ := firstBatch(t, server.URL, id)
	require.True(t, b.Reset)
	require.Equal(t, 1, b.Events[0].ID)
}
