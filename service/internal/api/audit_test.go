// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lease"
)

// last returns the newest audit event.
func (f *fixture) lastEvent() map[string]any {
	f.t.Helper()
	rows := strings.Split(strings.TrimSpace(f.audit.String()), "\n")
	var event map[string]any
	require.NoError(f.t, json.Unmarshal([]byte(rows[len(rows)-1]), &event))
	require.NotEmpty(f.t, event["time"])
	require.NotEmpty(f.t, event["remote"])
	delete(event, "time")
	delete(event, "remote")
	return event
}

func TestEachActionIsAudited(t *testing.T) {
	f := newFixture(t, &scripted{grant: lease.Grant{Token: 7}})
	type fields = map[string]any
	for _, c := range []struct {
		who, path, body string
		want            fields
	}{
		{"client", acquirePath, acquireBody, fields{
			"action": "acquire", "principal": "client", "namespace": "own", "key": "orders", "ownerId": "w1", "requestId": "r1",
			"fencingToken": "7", "status": 200.0,
		}},
		{"admin", forcePath, `{"fencingToken": 41, "reason": "stuck", "mode": "now"}`, fields{
			"action": "force-release", "principal": "admin", "namespace": "own", "key": "orders", "fencingToken": "41",
			"reason": "stuck", "mode": "now", "status": 200.0,
		}},
		{"client", renewPath, `{"ownerId": "w1", "lockToken": "forged"}`, fields{
			"action": "renew", "principal": "client", "namespace": "own", "key": "orders", "ownerId": "w1",
			"status": 403.0, "code": "NOT_LOCK_OWNER",
		}},
		{"client", forcePath, `{"fencingToken": 41, "reason": "stuck"}`, fields{
			"action": "force-release", "principal": "client", "namespace": "own", "key": "orders", "status": 403.0, "code": "FORBIDDEN",
		}},
		{"client", "/v1/locks/other/orders/acquire", acquireBody, fields{
			"action": "acquire", "principal": "client", "namespace": "other", "status": 403.0, "code": "FORBIDDEN",
		}},
	} {
		r := f.send(c.who, http.MethodPost, c.path, c.body)
		c.want["call"] = r.header.Get("X-Request-Id")
		require.Equal(t, c.want, f.lastEvent())
		require.Contains(t, f.log.String(), r.header.Get("X-Request-Id"), "the log has the request too")
	}
	before := f.audit.String()
	f.send("client", http.MethodGet, "/v1/locks/own/orders", "")
	f.send("stranger", http.MethodPost, acquirePath, acquireBody)
	require.Equal(t, before, f.audit.String(), "neither reads nor strangers are audited; the log has both")
}

func TestCallerThatHasGoneIsNoFailureOfTheService(t *testing.T) {
	f := newFixture(t, &scripted{waiting: make(chan struct{}), entered: make(chan struct{}, 1)})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.URL+acquirePath, strings.NewReader(with(`"wait": true`)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer client")
	go func() {
		<-f.locks.entered
		cancel()
	}()
	_, err = f.server.Client().Do(req)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return strings.Contains(f.log.String(), `"code":"CALLER_GONE"`) }, 10*time.Second, time.Millisecond)
	require.NotContains(t, f.log.String(), `"level":"ERROR"`)
	require.Equal(t, "CALLER_GONE", f.lastEvent()["code"])
}

func TestActionThatCannotBeAuditedIsCountedAndLogged(t *testing.T) {
	f := newFixture(t, &scripted{})
	f.audit.fail(errors.New("disk full"))
	require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
	require.Contains(t, f.log.String(), "disk full")
	require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_audit_errors_total 1")
}
