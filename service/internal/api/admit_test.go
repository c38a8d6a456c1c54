// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// bodies has a valid request for each operation that has a body.
func (f *fixture) bodies() map[string]string {
	acquired := f.send("both", http.MethodPost, "/v1/locks/own/k/acquire", acquireBody)
	require.Equal(f.t, http.StatusOK, acquired.status, "%s", acquired.body)
	proof := fmt.Sprintf(`{"ownerId": "w1", "lockToken": %q}`, acquired.json(f.t)["lockToken"])
	const number = `{"client_id": "w1", "fencing_token": 42}`
	bodies := map[string]string{
		"acquire": acquireBody, "campaign": acquireBody, "renew": proof, "release": proof, "renew-term": proof, "resign": proof,
		"force-release":   `{"fencingToken": "41", "reason": "stuck"}`,
		"numeric-acquire": `{"client_id": "w1"}`, "numeric-renew": number, "numeric-release": number,
		"default-force-release": `{"reason": "stuck"}`,
	}
	for _, action := range []string{"acquire", "renew", "release"} {
		bodies["default-"+action] = bodies[action]
	}
	return bodies
}

func TestEveryRouteAdmitsOnlyItsRolesInTheirNamespaces(t *testing.T) {
	f := newFixture(t, &scripted{})
	bodies := f.bodies()
	forbidden := []string{"403 FORBIDDEN"}
	unknown := []string{"401 UNAUTHENTICATED"}
	served := []string{"200", "403 NOT_LOCK_OWNER"} // the proof is of the principal both
	for path, item := range f.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post} {
			if op == nil || op.OperationID == "namespaces" {
				continue // TestNamespacesAreThoseOfTheCaller
			}
			for _, c := range []struct {
				who       string
				namespace string
				want      []string
			}{
				{"", "own", unknown},
				{"", "other", unknown},
				{"stranger", "own", unknown},
				{"client", "own", served},
				{"client", "other", forbidden},
				{"admin", "own", served},
				{"admin", "other", forbidden},
				{"both", "own", served},
				{"both", "other", served},
				{"", "default", unknown},
				{"stranger", "default", unknown},
				{"client", "default", forbidden},
				{"admin", "default", forbidden},
				{"both", "default", served},
				{"resident", "default", served},
				{"resident", "own", forbidden},
				{"warden", "default", served},
				{"warden", "own", forbidden},
			} {
				url := strings.NewReplacer("{namespace}", c.namespace, "{key}", "k").Replace(path)
				if strings.Contains(path, "{lock") {
					if c.namespace != "default" {
						continue // the path has no namespace: its keys are in that one
					}
					url = strings.NewReplacer("{lockKey}", "k", "{lock_name}", "k").Replace(path)
				}
				want := c.want
				isAdmins := strings.HasSuffix(op.OperationID, "force-release") || op.OperationID == "actions"
				switch isClient, isAdmin := c.who == "client" || c.who == "resident", c.who == "admin" || c.who == "warden"; {
				case isClient && isAdmins, isAdmin && method == http.MethodPost && !isAdmins:
					want = forbidden
				}
				if path == "/v1/locks" || path == "/v1/admin/actions" {
					url += "?namespace=" + c.namespace
				}
				before := f.locks.count()
				r := f.send(c.who, method, url, bodies[op.OperationID])
				got := fmt.Sprint(r.status)
				if r.status >= 400 {
					got += " " + r.code(t)
				}
				require.Contains(t, want, got, "%s as %q in %s", op.OperationID, c.who, c.namespace)
				if r.status >= 400 {
					require.Equal(t, before, f.locks.count(), "a refused request reaches no lock")
				} else if op.OperationID != "actions" && op.OperationID != "history" {
					require.Equal(t, before+1, f.locks.count())
				}
				if r.status == http.StatusUnauthorized {
					require.Equal(t, "Bearer", r.header.Get("WWW-Authenticate"))
				}
			}
		}
	}
}

func TestOperatorsRoutesNeedNoCredentialsAndShowNoLock(t *testing.T) {
	f := newFixture(t, &scripted{})
	require.Equal(t, http.StatusOK, f.send("both", http.MethodPost, "/v1/locks/hiddenspace/hiddenkey/acquire", acquireBody).status)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json"} {
		r := f.send("", http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, r.status, path)
		require.NotContains(t, string(r.body), "hidden")
	}
	metrics := string(f.send("", http.MethodGet, "/metrics", "").body)
	require.Contains(t, metrics, `lockkeeper_service_requests_total{code="",operation="acquire",status="200"} 1`)
	require.Contains(t, metrics, "lockkeeper_service_ready 1")

	f.ready = errZooKeeper
	r := f.send("", http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.NotContains(t, string(r.body), "10.1.2.3")
	require.Equal(t, http.StatusOK, f.send("", http.MethodGet, "/healthz", "").status)
	f.ready = nil
	close(f.draining)
	require.Equal(t, http.StatusServiceUnavailable, f.send("", http.MethodGet, "/readyz", "").status)
}

func TestReplicaThatIsNotReadyRefusesImmediately(t *testing.T) {
	f := newFixture(t, &scripted{})
	f.ready = errZooKeeper
	r := f.send("client", http.MethodPost, acquirePath, acquireBody)
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Equal(t, "UNAVAILABLE", r.code(t))
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.NotContains(t, string(r.body), "10.1.2.3")
	require.Zero(t, f.locks.count())
	f.ready = nil
	require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
}

func TestPrincipalOverItsRateIsRefused(t *testing.T) {
	f := newFixture(t, &scripted{})
	require.Equal(t, http.StatusOK, f.send("slow", http.MethodPost, acquirePath, acquireBody).status)
	r := f.send("slow", http.MethodPost, acquirePath, acquireBody)
	require.Equal(t, http.StatusTooManyRequests, r.status)
	require.Equal(t, "TOO_MANY_REQUESTS", r.code(t))
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Equal(t, 1, f.locks.count())
	require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
}

func TestLoopOfAcquiresLeavesRenewalsAndReleasesTheirBudget(t *testing.T) {
	f := newFixture(t, &scripted{})
	granted := f.send("slow", http.MethodPost, acquirePath, acquireBody)
	require.Equal(t, http.StatusOK, granted.status)
	token, _ := granted.json(t)["lockToken"].(string)
	own := `{"ownerId": "w1", "lockToken": "` + token + `"}`
	for range 100 {
		require.Equal(t, http.StatusTooManyRequests, f.send("slow", http.MethodPost, acquirePath, acquireBody).status)
	}
	require.Equal(t, http.StatusOK, f.send("slow", http.MethodGet, "/v1/locks/own/orders", "").status)
	for range 3 {
		require.Equal(t, http.StatusOK, f.send("slow", http.MethodPost, renewPath, own).status)
	}
	require.Equal(t, http.StatusOK, f.send("slow", http.MethodPost, "/v1/locks/own/orders/release", own).status)
}

func TestRefusalAsksForARepeatWithinTenSeconds(t *testing.T) {
	f := newFixture(t, &scripted{err: &lease.HeldError{Front: held, RetryAfter: 10 * time.Minute}})
	r := f.send("client", http.MethodPost, acquirePath, acquireBody)
	require.Equal(t, http.StatusConflict, r.status)
	require.Equal(t, "10", r.header.Get("Retry-After"))
	require.EqualValues(t, 600_000, r.json(t)["retryAfterMillis"])
}

// Behind a proxy, all callers have one address.
func TestAddressWithTooManyStrangersIsRefusedExceptForItsPrincipals(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		for range 100 {
			require.Equal(t, "UNAUTHENTICATED", f.send("stranger", http.MethodGet, "/v1/locks/own/orders", "").code(t))
		}
		logged := f.log.String()
		r := f.send("stranger", http.MethodGet, "/v1/locks/own/orders", "")
		require.Equal(t, "TOO_MANY_REQUESTS", r.code(t))
		require.NotEmpty(t, r.header.Get("Retry-After"))
		require.Equal(t, "ROUTE_NOT_FOUND", f.send("", http.MethodGet, "/admin.php", "").code(t))
		require.Equal(t, logged, f.log.String(), "strangers must not fill the disk")
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_unlogged_requests_total 2")
		require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
	})
}

func TestPrincipalWithTooManyWaitersIsRefused(t *testing.T) {
	f := newFixture(t, &scripted{waiting: make(chan struct{}), entered: make(chan struct{}, 10)})
	const waits = `{"ownerId": "w1", "requestId": "r1", "wait": true}`
	done := make(chan int)
	for range limits.Waiters {
		go func() { done <- f.send("client", http.MethodPost, acquirePath, waits).status }()
		<-f.locks.entered
	}
	r := f.send("client", http.MethodPost, acquirePath, waits)
	require.Equal(t, http.StatusTooManyRequests, r.status)
	require.Equal(t, "TOO_MANY_WAITERS", r.code(t))
	r = f.send("client", http.MethodGet, "/v1/locks/own/orders/events", "")
	require.Equal(t, "TOO_MANY_WAITERS", r.code(t))
	require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_waiters 3")
	close(f.locks.waiting)
	for range limits.Waiters {
		require.Equal(t, http.StatusOK, <-done)
	}
	require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, waits).status)
}

func TestPageOfAnotherOriginIsRefused(t *testing.T) {
	f := newFixture(t, &scripted{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+acquirePath, strings.NewReader(acquireBody))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer client")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := f.server.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.Zero(t, f.locks.count())
}
