// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/internal/key"
)

func FuzzEveryRequestIsAnsweredAsDocumented(f *testing.F) {
	for _, seed := range []struct{ path, body string }{
		{acquirePath, acquireBody},
		{acquirePath, with(`"wait": true, "ttlMillis": 5000, "metadata": {"a": "b"}, "reentrant": null`)},
		{"/v1/locks/own/%2E%2E%2F/acquire", acquireBody},
		{renewPath, `{"ownerId": "w1", "lockToken": "node.h.AAAA"}`},
		{forcePath, `{"fencingToken": 41, "reason": "r", "mode": "now"}`},
		{"/v1/locks?namespace=own&prefix=a&limit=2&page=YQ", ""},
		{"/v1/elections/own/k/campaign", `{"ownerId": "w1", "requestId": "r1", "value": "v"}`},
		{"/v1/elections/own/k/leader", ""},
		{"/v1/locks/acquire/acquire", acquireBody},
		{"/v1/locks/a%2Fb/force-release", `{"reason": "r", "fencingToken": 41}`},
		{"/v1/locks/%2E%2E", ""},
		{"/v1/locks/own/history/history", ""},
		{"/api/v1/locks/k/acquire", `{"client_id": "c", "ttl_ms": 1000, "wait_timeout_ms": 0}`},
		{"/api/v1/locks/k/renew", `{"client_id": "c", "fencing_token": 9007199254740993}`},
	} {
		f.Add(seed.path, seed.body)
	}
	fixture := newFixture(f, &scripted{})
	f.Fuzz(func(t *testing.T, path, body string) {
		target, err := url.ParseRequestURI(path)
		if err != nil || strings.HasSuffix(target.Path, "/events") || strings.HasSuffix(target.Path, "/observe") {
			return
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := &http.Request{
				Method: method, URL: target, Header: http.Header{"Authorization": {"Bearer both"}, "Content-Type": {"application/json"}},
				Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "x", RequestURI: path,
				Body: http.NoBody, ContentLength: int64(len(body)),
			}
			r.Body = httptest.NewRequest(method, "/", strings.NewReader(body)).Body
			recorder := httptest.NewRecorder()
			fixture.api.ServeHTTP(recorder, r)
			require.NotEqual(t, http.StatusInternalServerError, recorder.Code, "%s", recorder.Body)
			if recorder.Code >= 400 {
				var problem map[string]any
				require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &problem))
				require.EqualValues(t, recorder.Code, problem["status"])
				require.NotEmpty(t, problem["code"])
			}
			if last := fixture.locks.request().Path; last != "" {
				parts := strings.Split(last, "/")
				require.Len(t, parts, 4, "%s is one node inside a namespace", last)
				require.Equal(t, "locks", parts[1], last)
				require.NoError(t, key.CheckNamespace(parts[2]))
				require.NotContains(t, []string{"", ".", ".."}, parts[3])
			}
		}
	})
}
