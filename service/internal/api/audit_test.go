// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
)

// lastEvent returns the newest audit event. An answer waits for its event for 100 ms only, which a busy machine may take to write
// it: tests that need it run in fake time.
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
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{grant: lease.Grant{Token: 7}})
		type fields = map[string]any
		for _, c := range []struct {
			who, path, body string
			want            fields
		}{
			{"client", acquirePath, acquireBody, fields{
				"action": "acquire", "principal": "client", "namespace": "own", "key": "orders", "ownerId": "w1", "requestId": "r1",
				"fencingToken": "7", "node": "node", "status": 200.0,
			}},
			{"admin", forcePath, `{"fencingToken": 41, "reason": "stuck", "mode": "now"}`, fields{
				"action": "force-release", "principal": "admin", "namespace": "own", "key": "orders", "fencingToken": "41",
				"reason": "stuck", "mode": "now", "node": "node", "status": 200.0,
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
		require.Contains(t, f.audit.String(), `"action":"force-release-requested"`, "before the action is carried out")
		before := f.audit.String()
		f.send("client", http.MethodGet, "/v1/locks/own/orders", "")
		f.send("stranger", http.MethodPost, acquirePath, acquireBody)
		require.Equal(t, before, f.audit.String(), "neither reads nor strangers are audited; the log has both")
	})
}

// 10,000 leases would be 70 GB a day.
func TestRenewalIsAuditedOnlyIfRefusedOrAskedFor(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{grant: lease.Grant{Token: 7}})
		g := f.send("client", http.MethodPost, acquirePath, acquireBody).json(t)
		audited, logged := f.audit.String(), f.log.String()
		renewal := fmt.Sprintf(`{"ownerId": "w1", "lockToken": %q}`, g["lockToken"])
		require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, renewPath, renewal).status)
		require.Equal(t, audited, f.audit.String())
		require.Equal(t, logged, f.log.String())
		f.locks.err = lease.ErrGone
		require.Equal(t, http.StatusGone, f.send("client", http.MethodPost, renewPath, renewal).status)
		require.Equal(t, "LOCK_EXPIRED", f.lastEvent()["code"])
		f.locks.err = nil
		f.api.AuditRenewals = true
		require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, renewPath, renewal).status)
		require.Equal(t, "7", f.lastEvent()["fencingToken"])
	})
}

func TestRefusalsOfALoopingProgramAreSampledInTheLog(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{err: &lease.HeldError{Front: held}})
		for range 1000 {
			require.Equal(t, http.StatusConflict, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
		}
		require.Equal(t, 100, strings.Count(f.log.String(), `"code":"LOCK_ALREADY_HELD"`))
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_unlogged_requests_total 900")
		time.Sleep(time.Second)
		f.send("client", http.MethodPost, acquirePath, acquireBody)
		require.Contains(t, f.log.String(), `"unlogged":900`)
	})
}

func TestCallerThatHasGoneIsNoFailureOfTheService(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
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
		synctest.Wait()
		require.Contains(t, f.log.String(), `"code":"CALLER_GONE"`)
		require.NotContains(t, f.log.String(), `"level":"ERROR"`)
		require.Equal(t, "CALLER_GONE", f.lastEvent()["code"])
	})
}

func TestActionThatCannotBeAuditedIsCountedAndLogged(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		f.audit.fail(errors.New("disk full"))
		require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
		require.Contains(t, f.log.String(), "disk full")
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_audit_errors_total 1")
	})
}

// A holder counts its lease from the sending of its request: an answer that waited for the audit would be worth nothing.
func TestBlockedAuditDelaysNoRenewalAndRefusesForcedReleases(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		f.audit.block()
		began := time.Now()
		require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		r := f.send("admin", http.MethodPost, forcePath, forceBody)
		require.Equal(t, http.StatusServiceUnavailable, r.status)
		require.Equal(t, "ACTION_NOT_RECORDED", r.code(t))
		require.Equal(t, 1, f.locks.count(), "nothing was released")
		require.Contains(t, f.log.String(), "the audit file blocks")
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_audit_pending 3")
		f.audit.unblock()
		synctest.Wait()
		require.Equal(t, "force-release", f.lastEvent()["action"], "events that came late are written")
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_audit_errors_total 0")
	})
}

func TestForcedReleaseIsRefusedUnlessItIsRecordedBefore(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		f.actions.fail(errors.New("no quorum"))
		r := f.send("admin", http.MethodPost, forcePath, forceBody)
		require.Equal(t, http.StatusServiceUnavailable, r.status)
		require.Equal(t, "ACTION_NOT_RECORDED", r.code(t))
		require.NotEmpty(t, r.header.Get("Retry-After"))
		require.Zero(t, f.locks.count())
		f.actions.fail(nil)
		f.audit.fail(errors.New("disk full"))
		require.Equal(t, "ACTION_NOT_RECORDED", f.send("admin", http.MethodPost, forcePath, forceBody).code(t))
		require.Zero(t, f.locks.count())
	})
}

func TestForcedReleaseWhoseOutcomeIsNotRecordedIsDone(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		f.locks.forcing = func() { f.actions.fail(errors.New("no quorum")) }
		require.Equal(t, http.StatusOK, f.send("admin", http.MethodPost, forcePath, forceBody).status)
		require.Contains(t, f.log.String(), "outcome of an administrative action not recorded")
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_action_errors_total 1")
		f.actions.fail(nil)
		list := f.send("admin", http.MethodGet, "/v1/admin/actions", "")
		require.Contains(t, string(list.body), `"reason":"stuck"`)
		require.NotContains(t, string(list.body), "status", "the outcome is unknown")
	})
}

func TestAdministratorSeesActionsInItsNamespacesOnly(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		f.send("both", http.MethodPost, "/v1/locks/other/orders/force-release", forceBody)
		f.send("both", http.MethodPost, forcePath, forceBody)
		count := func(who, query string) int {
			actions, _ := f.send(who, http.MethodGet, "/v1/admin/actions"+query, "").json(t)["actions"].([]any)
			return len(actions)
		}
		require.Equal(t, []int{2, 1, 1, 1, 1}, []int{
			count("both", ""), count("both", "?namespace=other"), count("both", "?limit=1"), count("admin", ""), count("admin", "?namespace=own"),
		})
	})
}

func TestActionsThatAreNotReadAreBounded(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		f.actions.events = slices.Repeat([]audit.Event{{Namespace: "own", Key: "orders", Reason: strings.Repeat("\n", 512)}}, 256)
		const list = "/v1/admin/actions?limit=256"
		counts := map[string]int{}
		for range 40 {
			status, _ := f.unread("admin", list)
			counts[status]++
		}
		require.Less(t, counts["200"], 20, "of 0.9 MiB")
		require.Equal(t, 40, counts["200"]+counts["429"])
		require.Equal(t, "TOO_MANY_REQUESTS", f.send("admin", http.MethodGet, list, "").code(t))
		require.Equal(t, 200, f.send("both", http.MethodGet, list, "").status, "another principal")
	})
}
