// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	renewPath = "/v1/locks/own/orders/renew"
	forcePath = "/v1/locks/own/orders/force-release"
	forceBody = `{"fencingToken": "41", "reason": "stuck"}`
)

func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	f := newFixture(t, &scripted{})
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		code, mentions     string
	}{
		"malformed JSON":             {"", acquirePath, `{"ownerId": `, 400, "MALFORMED_REQUEST", "not valid JSON"},
		"text after JSON":            {"", acquirePath, acquireBody + `x`, 400, "MALFORMED_REQUEST", ""},
		"no body":                    {"", acquirePath, ``, 400, "MALFORMED_REQUEST", ""},
		"field in two cases":         {"", acquirePath, `{"ownerId": "a", "OWNERID": "b", "requestId": "r"}`, 400, "MALFORMED_REQUEST", "twice"},
		"array":                      {"", acquirePath, `[]`, 422, "INVALID_REQUEST", ""},
		"null":                       {"", acquirePath, `null`, 422, "INVALID_REQUEST", ""},
		"missing owner":              {"", acquirePath, `{"requestId": "r"}`, 422, "INVALID_REQUEST", "ownerId"},
		"missing request":            {"", acquirePath, `{"ownerId": "a"}`, 422, "INVALID_REQUEST", "requestId"},
		"empty owner":                {"", acquirePath, `{"ownerId": "", "requestId": "r"}`, 422, "INVALID_REQUEST", "body.ownerId"},
		"long owner":                 {"", acquirePath, `{"ownerId": "` + strings.Repeat("o", 257) + `", "requestId": "r"}`, 422, "INVALID_REQUEST", "body.ownerId"},
		"owner of another type":      {"", acquirePath, `{"ownerId": 5, "requestId": "r"}`, 422, "INVALID_REQUEST", "body.ownerId"},
		"unknown field":              {"", acquirePath, `{"ownerId": "a", "requestId": "r", "ttl": 5}`, 422, "INVALID_REQUEST", "body.ttl"},
		"negative TTL":               {"", acquirePath, with(`"ttlMillis": -1`), 422, "INVALID_REQUEST", "body.ttlMillis"},
		"zero TTL":                   {"", acquirePath, with(`"ttlMillis": 0`), 422, "INVALID_REQUEST", "body.ttlMillis"},
		"huge TTL":                   {"", acquirePath, with(`"ttlMillis": 3600001`), 422, "INVALID_REQUEST", "body.ttlMillis"},
		"TTL above int64":            {"", acquirePath, with(`"ttlMillis": 99999999999999999999`), 422, "INVALID_REQUEST", "body"},
		"TTL above float64":          {"", acquirePath, with(`"ttlMillis": 1e999`), 400, "MALFORMED_REQUEST", ""},
		"fractional TTL":             {"", acquirePath, with(`"ttlMillis": 1000.5`), 422, "INVALID_REQUEST", "body.ttlMillis"},
		"TTL as text":                {"", acquirePath, with(`"ttlMillis": "30000"`), 422, "INVALID_REQUEST", "body.ttlMillis"},
		"negative wait":              {"", acquirePath, with(`"waitMillis": -1`), 422, "INVALID_REQUEST", "body.waitMillis"},
		"huge wait":                  {"", acquirePath, with(`"waitMillis": 86400001`), 422, "INVALID_REQUEST", "body.waitMillis"},
		"wait false with waitMillis": {"", acquirePath, with(`"wait": false, "waitMillis": 1`), 422, "INVALID_REQUEST", "body.wait"},
		"wait true without a wait":   {"", acquirePath, with(`"wait": true, "waitMillis": 0`), 422, "INVALID_REQUEST", "body.wait"},
		"metadata of another type":   {"", acquirePath, with(`"metadata": {"a": 1}`), 422, "INVALID_REQUEST", "body.metadata"},
		"long metadata":              {"", acquirePath, with(`"metadata": {"a": "` + strings.Repeat("m", 257) + `"}`), 422, "INVALID_REQUEST", "body.metadata"},
		"long value":                 {"", "/v1/elections/own/orders/campaign", with(`"value": "` + strings.Repeat("ü", 2049) + `"`), 422, "INVALID_REQUEST", "body.value"},
		"key of 10 kB":               {"", "/v1/locks/own/" + strings.Repeat("k", 10_000) + "/acquire", acquireBody, 422, "INVALID_REQUEST", "path.key"},
		"key that is not UTF-8":      {"", "/v1/locks/own/%FF/acquire", acquireBody, 422, "INVALID_REQUEST", "path.key"},
		"namespace with a slash":     {"", "/v1/locks/a%2Fb/k/acquire", acquireBody, 422, "INVALID_REQUEST", "path.namespace"},
		"namespace of dots":          {"", "/v1/locks/%2E%2E/k/acquire", acquireBody, 422, "INVALID_REQUEST", "path.namespace"},
		"namespace with NUL":         {"", "/v1/locks/a%00/k/acquire", acquireBody, 422, "INVALID_REQUEST", "path.namespace"},
		"reserved namespace":         {"", "/v1/locks/lockkeeper-history/k/acquire", acquireBody, 422, "INVALID_REQUEST", "path.namespace"},
		"missing namespace":          {"GET", "/v1/locks", ``, 422, "INVALID_REQUEST", "query.namespace"},
		"token that is no number":    {"", forcePath, `{"fencingToken": "forty", "reason": "r"}`, 422, "INVALID_REQUEST", "body.fencingToken"},
		"token that is an object":    {"", forcePath, `{"fencingToken": {}, "reason": "r"}`, 422, "INVALID_REQUEST", "body.fencingToken"},
		"token of zero":              {"", forcePath, `{"fencingToken": 0, "reason": "r"}`, 422, "INVALID_REQUEST", "body.fencingToken"},
		"negative token":             {"", forcePath, `{"fencingToken": -5, "reason": "r"}`, 422, "INVALID_REQUEST", "body.fencingToken"},
		"fractional token":           {"", forcePath, `{"fencingToken": 1.5, "reason": "r"}`, 422, "INVALID_REQUEST", "body.fencingToken"},
		"token above int64":          {"", forcePath, `{"fencingToken": "9999999999999999999", "reason": "r"}`, 422, "INVALID_REQUEST", "body.fencingToken"},
		"unknown mode":               {"", forcePath, `{"fencingToken": "4", "reason": "r", "mode": "later"}`, 422, "INVALID_REQUEST", "body.mode"},
		"force without a reason":     {"", forcePath, `{"fencingToken": "4"}`, 422, "INVALID_REQUEST", "reason"},
		"lock token that is none":    {"", renewPath, `{"ownerId": "w1", "lockToken": "x"}`, 403, "NOT_LOCK_OWNER", ""},
		"renew with a huge TTL":      {"", renewPath, `{"ownerId": "w1", "lockToken": "x", "ttlMillis": 3600001}`, 422, "INVALID_REQUEST", "body.ttlMillis"},
		"limit that is no number":    {"GET", "/v1/locks?namespace=own&limit=many", ``, 422, "INVALID_REQUEST", "query.limit"},
		"limit of zero":              {"GET", "/v1/locks?namespace=own&limit=0", ``, 422, "INVALID_REQUEST", "query.limit"},
		"huge limit":                 {"GET", "/v1/locks?namespace=own&limit=1001", ``, 422, "INVALID_REQUEST", "query.limit"},
		"page that is none":          {"GET", "/v1/locks?namespace=own&page=%2F", ``, 422, "INVALID_REQUEST", "query.page"},
		"page with a slash":          {"GET", "/v1/locks?namespace=own&page=Li4vYQ", ``, 422, "INVALID_REQUEST", "query.page"},
		"unknown query parameter":    {"GET", "/v1/locks?namespace=own&offset=1", ``, 422, "INVALID_REQUEST", "offset"},
		"list by path":               {"GET", "/v1/locks/own?limit=10", ``, 422, "INVALID_REQUEST", "query.limit"},
		"two keys":                   {"", "/v1/locks/own/orders/a/acquire", acquireBody, 404, "ROUTE_NOT_FOUND", ""},
		"action as a key":            {"", "/v1/locks/own/acquire/steal", acquireBody, 404, "ROUTE_NOT_FOUND", ""},
		"acting without an action":   {"", "/v1/locks/own/orders", acquireBody, 405, "METHOD_NOT_ALLOWED", ""},
		"key alone":                  {"", "/v1/locks/orders", acquireBody, 405, "METHOD_NOT_ALLOWED", ""},
		"events without a namespace": {"", "/v1/locks/orders/events", ``, 405, "METHOD_NOT_ALLOWED", ""},
		"long key of the default":    {"", "/v1/locks/" + strings.Repeat("k", 513) + "/acquire", acquireBody, 422, "INVALID_REQUEST", "path.lockKey"},
		"long lock name":             {"", "/api/v1/locks/" + strings.Repeat("k", 513) + "/acquire", `{"client_id": "c"}`, 422, "INVALID_REQUEST", "path.lock_name"},
		"default without requestId":  {"", "/v1/locks/orders/acquire", `{"ownerId": "w1"}`, 422, "INVALID_REQUEST", "requestId"},
		"default without a reason":   {"", "/v1/locks/orders/force-release", `{}`, 422, "INVALID_REQUEST", "reason"},
		"default with a bad token":   {"", "/v1/locks/orders/force-release", `{"reason": "r", "fencingToken": 0}`, 422, "INVALID_REQUEST", "body.fencingToken"},
		"numeric without a client":   {"", "/api/v1/locks/orders/acquire", `{"ttl_ms": 1000}`, 422, "INVALID_REQUEST", "client_id"},
		"numeric with a huge TTL":    {"", "/api/v1/locks/orders/acquire", `{"client_id": "c", "ttl_ms": 3600001}`, 422, "INVALID_REQUEST", "body.ttl_ms"},
		"numeric renew, huge TTL":    {"", "/api/v1/locks/orders/renew", `{"client_id": "c", "fencing_token": 1, "ttl_ms": 3600001}`, 422, "INVALID_REQUEST", "body.ttl_ms"},
		"numeric with a huge wait":   {"", "/api/v1/locks/orders/acquire", `{"client_id": "c", "wait_timeout_ms": 86400001}`, 422, "INVALID_REQUEST", "body.wait_timeout_ms"},
		"numeric token as text":      {"", "/api/v1/locks/orders/release", `{"client_id": "c", "fencing_token": "42"}`, 422, "INVALID_REQUEST", "body.fencing_token"},
		"numeric token with a point": {"", "/api/v1/locks/orders/release", `{"client_id": "c", "fencing_token": 42.0}`, 422, "INVALID_REQUEST", "body"},
		"numeric token of a float":   {"", "/api/v1/locks/orders/release", `{"client_id": "c", "fencing_token": 1e30}`, 422, "INVALID_REQUEST", "body"},
		"numeric token above int64":  {"", "/api/v1/locks/orders/release", `{"client_id": "c", "fencing_token": 9223372036854775808}`, 422, "INVALID_REQUEST", "body"},
		"numeric token of zero":      {"", "/api/v1/locks/orders/release", `{"client_id": "c", "fencing_token": 0}`, 422, "INVALID_REQUEST", "body.fencing_token"},
		"numeric requestId":          {"", "/api/v1/locks/orders/acquire", `{"client_id": "c", "requestId": "r"}`, 422, "INVALID_REQUEST", "body.requestId"},
		"unknown route":              {"", "/v1/locks/own/orders/steal", acquireBody, 404, "ROUTE_NOT_FOUND", ""},
		"empty key":                  {"", "/v1/locks/own//acquire", acquireBody, 404, "ROUTE_NOT_FOUND", ""},
		"empty segment":              {"GET", "/v1/locks/own//orders", ``, 404, "ROUTE_NOT_FOUND", ""},
		"dots in the path":           {"", "/v1/locks/own/../other/acquire", acquireBody, 404, "ROUTE_NOT_FOUND", ""},
		"wrong method":               {"GET", acquirePath, ``, 405, "METHOD_NOT_ALLOWED", ""},
	} {
		t.Run(name, func(t *testing.T) {
			method := c.method
			if method == "" {
				method = http.MethodPost
			}
			r := f.send("both", method, c.path, c.body)
			require.Equal(t, c.status, r.status, "%s", r.body)
			require.Equal(t, c.code, r.code(t))
			require.Contains(t, string(r.body), c.mentions)
			require.Less(t, len(r.body), 2000, "an answer does not repeat what was sent")
			require.Zero(t, f.locks.count(), "a bad request reaches no lock")
			require.Contains(t, f.log.String(), `"request":"`+r.header.Get("X-Request-Id")+`"`)
			require.Contains(t, f.log.String(), `"code":"`+c.code+`"`)
		})
	}
}

// with returns an acquire with further fields.
func with(fields string) string { return `{"ownerId": "w1", "requestId": "r1", ` + fields + `}` }

func TestKeyWithSlashDotsOrNULIsOneNodeInsideItsNamespace(t *testing.T) {
	f := newFixture(t, &scripted{})
	for encoded, path := range map[string]string{
		"a%2Fb":             "/locks/own/a%2Fb",
		"%2F":               "/locks/own/%2F",
		"%2f":               "/locks/own/%2F",
		"%2F%2F":            "/locks/own/%2F%2F",
		"%2E%2E":            "/locks/own/%2E%2E",
		"%2e":               "/locks/own/%2E",
		"%2E%2E%2Fother%2F": "/locks/own/..%2Fother%2F",
		"%00":               "/locks/own/%00",
		"%252F":             "/locks/own/%252F",
		"acquire":           "/locks/own/acquire",
	} {
		r := f.send("client", http.MethodPost, "/v1/locks/own/"+encoded+"/acquire", acquireBody)
		require.Equal(t, http.StatusOK, r.status, "%s", r.body)
		require.Equal(t, path, f.locks.request().Path)
	}
}

func TestForeignOrAlteredLockTokenIsRefused(t *testing.T) {
	f := newFixture(t, &scripted{})
	token, _ := f.send("client", http.MethodPost, acquirePath, acquireBody).json(t)["lockToken"].(string)
	proof := func(owner, token string) string { return `{"ownerId": "` + owner + `", "lockToken": "` + token + `"}` }
	for name, c := range map[string]struct{ who, path, body string }{
		"another owner":     {"client", renewPath, proof("w2", token)},
		"another principal": {"both", renewPath, proof("w1", token)},
		"another lock":      {"client", "/v1/locks/own/other/renew", proof("w1", token)},
		"altered":           {"client", renewPath, proof("w1", "x"+token)},
		"release":           {"client", "/v1/locks/own/orders/release", proof("w2", token)},
		"resign":            {"client", "/v1/elections/own/orders/resign", proof("w2", token)},
	} {
		before := f.locks.count()
		r := f.send(c.who, http.MethodPost, c.path, c.body)
		require.Equal(t, http.StatusForbidden, r.status, name)
		require.Equal(t, "NOT_LOCK_OWNER", r.code(t), name)
		require.Equal(t, before, f.locks.count(), name)
	}
	require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, renewPath, proof("w1", token)).status)
	require.NotContains(t, f.audit.String()+f.log.String(), token, "neither audit nor log has a secret")
}

func TestEachOutcomeOfTheProtocolHasItsProblem(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err    error
			status int
			code   string
			field  string
			value  any
		}{
			{&lease.HeldError{Front: held, RetryAfter: 1500_000_000}, 409, "LOCK_ALREADY_HELD", "currentOwner", "w0"},
			{&lease.HeldError{Front: held, RetryAfter: 1500_000_000}, 409, "LOCK_ALREADY_HELD", "retryAfterMillis", 1500.0},
			{&lease.HeldError{Front: lease.Contender{Contender: recipes.Contender{Owner: "w1"}, Lease: &lease.Lease{}}}, 409, "LOCK_ALREADY_HELD", "currentOwner", nil},
			{lease.ErrSuperseded, 409, "REQUEST_SUPERSEDED", "status", 409.0},
			{lease.ErrCannotNotify, 409, "HOLDER_CANNOT_BE_NOTIFIED", "status", 409.0},
			{&lease.FrontError{Token: 43}, 409, "HOLDER_CHANGED", "fencingToken", "43"},
			{lease.ErrGone, 410, "LOCK_EXPIRED", "status", 410.0},
			{lease.ErrReleased, 410, "LOCK_RELEASED", "status", 410.0},
			{&lease.RevokedError{By: "ops", Reason: "stuck"}, 410, "LOCK_REVOKED", "reason", "stuck"},
			{lease.ErrExhausted, 410, "LEASE_EXHAUSTED", "status", 410.0},
			{lease.ErrNotFound, 404, "LOCK_NOT_FOUND", "status", 404.0},
			{&lease.MismatchError{Field: "reentrant"}, 422, "REQUEST_MISMATCH", "status", 422.0},
			{lease.ErrUncertain, 503, "UNAVAILABLE", "status", 503.0},
			{errZooKeeper, 503, "UNAVAILABLE", "status", 503.0},
		} {
			f := newFixture(t, &scripted{err: c.err})
			r := f.send("client", http.MethodPost, acquirePath, acquireBody)
			require.Equal(t, c.status, r.status)
			require.Equal(t, c.code, r.code(t))
			require.Equal(t, c.value, r.json(t)[c.field])
			require.NotContains(t, string(r.body), "10.1.2.3", "an answer shows nothing of ZooKeeper")
			require.Contains(t, f.audit.String(), `"code":"`+c.code+`"`)
		}
	})
}
