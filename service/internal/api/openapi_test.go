// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"
)

var parameter = regexp.MustCompile(`\\{[a-zA-Z_]+\\}`)

// operationOf returns the documented operation of a request, nil if there is none.
func (f *fixture) operationOf(method, path string) *huma.Operation {
	path, _, _ = strings.Cut(path, "?")
	for documented, item := range f.api.OpenAPI().Paths {
		pattern := parameter.ReplaceAllString(regexp.QuoteMeta(documented), "[^/]+")
		if !regexp.MustCompile("^" + pattern + "$").MatchString(path) {
			continue
		}
		op := item.Post
		if method == http.MethodGet {
			op = item.Get
		}
		if op != nil { // the key of one route can be the action of another
			return op
		}
	}
	return nil
}

// fitsDocument checks an answer against the OpenAPI document: its status, its media type and its body.
func (f *fixture) fitsDocument(method, path string, r *response) {
	f.t.Helper()
	op := f.operationOf(method, path)
	if op == nil {
		return
	}
	documented := op.Responses[strconv.Itoa(r.status)]
	if documented == nil {
		documented = op.Responses["default"]
		require.GreaterOrEqual(f.t, r.status, 400, "status %d of %s %s is not documented", r.status, method, path)
	}
	content := documented.Content[r.header.Get("Content-Type")]
	require.NotNil(f.t, content, "%s of %s %s is not documented", r.header.Get("Content-Type"), method, path)
	if strings.HasPrefix(r.header.Get("Content-Type"), "text/") {
		return
	}
	var body any
	require.NoError(f.t, json.Unmarshal(r.body, &body))
	result := &huma.ValidateResult{}
	registry := f.api.OpenAPI().Components.Schemas
	huma.Validate(registry, content.Schema, huma.NewPathBuffer([]byte{}, 0), huma.ModeReadFromServer, body, result)
	require.Empty(f.t, result.Errors, "%s", r.body)
}

func TestDocumentNamesEveryRouteAndItsAnswers(t *testing.T) {
	f := newFixture(t, &scripted{})
	r := f.send("", http.MethodGet, "/openapi.json", "")
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, "3.1.0", r.json(t)["openapi"])
	require.NotContains(t, string(r.body), "ErrorModel", "problems have one schema")
	var found []string
	for path, item := range f.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post} {
			if op == nil {
				continue
			}
			found = append(found, method+" "+path)
			require.NotEmpty(t, op.Summary)
			require.NotNil(t, op.Responses["default"].Content["application/problem+json"], "refusals are documented")
			require.NotNil(t, op.Responses["200"], path)
		}
	}
	slices.Sort(found)
	require.Equal(t, []string{
		"GET /v1/admin/actions",
		"GET /v1/elections/{namespace}/{key}/leader", "GET /v1/elections/{namespace}/{key}/observe",
		"GET /v1/locks", "GET /v1/locks/{lockKey}", "GET /v1/locks/{namespace}/{key}", "GET /v1/locks/{namespace}/{key}/events",
		"GET /v1/locks/{namespace}/{key}/history", "GET /v1/namespaces",
		"POST /api/v1/locks/{lock_name}/acquire", "POST /api/v1/locks/{lock_name}/release", "POST /api/v1/locks/{lock_name}/renew",
		"POST /v1/elections/{namespace}/{key}/campaign", "POST /v1/elections/{namespace}/{key}/renew",
		"POST /v1/elections/{namespace}/{key}/resign",
		"POST /v1/locks/{lockKey}/acquire", "POST /v1/locks/{lockKey}/force-release", "POST /v1/locks/{lockKey}/release",
		"POST /v1/locks/{lockKey}/renew",
		"POST /v1/locks/{namespace}/{key}/acquire", "POST /v1/locks/{namespace}/{key}/force-release",
		"POST /v1/locks/{namespace}/{key}/release", "POST /v1/locks/{namespace}/{key}/renew",
	}, found)
}
