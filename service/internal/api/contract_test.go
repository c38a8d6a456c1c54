// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// A lease that has ended is 410 on the routes with a namespace.
func TestContractsKnowOneStatusForLeasesThatHaveEnded(t *testing.T) {
	for err, want := range map[error]struct{ code, word string }{
		lease.ErrGone:                       {"LOCK_EXPIRED", "LOCK_EXPIRED"},
		lease.ErrReleased:                   {"LOCK_RELEASED", "LOCK_EXPIRED"},
		lease.ErrExhausted:                  {"LEASE_EXHAUSTED", "LOCK_EXPIRED"},
		&lease.RevokedError{By: "operator"}: {"LOCK_REVOKED", "LOCK_EXPIRED"},
	} {
		f := newFixture(t, &scripted{})
		held := f.send("both", http.MethodPost, "/v1/locks/orders/acquire", acquireBody).json(t)
		proof := `{"ownerId": "w1", "lockToken": "` + held["lockToken"].(string) + `"}`
		f.locks.err = err
		for path, body := range map[string]string{
			"/v1/locks/orders/renew": proof, "/api/v1/locks/orders/renew": `{"client_id": "w1", "fencing_token": 41}`,
		} {
			r := f.send("both", http.MethodPost, path, body)
			require.Equal(t, http.StatusConflict, r.status, path)
			require.Equal(t, []any{want.code, want.word}, []any{r.json(t)["code"], r.json(t)["error"]}, path)
		}
		r := f.send("both", http.MethodPost, "/v1/locks/orders/acquire", acquireBody)
		require.Equal(t, http.StatusConflict, r.status)
		require.Equal(t, want.code, r.json(t)["error"])
		require.Equal(t, http.StatusGone, f.send("both", http.MethodPost, "/v1/locks/default/orders/acquire", acquireBody).status)
	}
}

func TestWaitWithoutBoundIsInPollsOnlyWithANamespace(t *testing.T) {
	f := newFixture(t, &scripted{})
	const waits = `{"ownerId": "w1", "requestId": "r1", "wait": true}`
	require.Equal(t, http.StatusOK, f.send("both", http.MethodPost, acquirePath, waits).status)
	require.False(t, f.locks.request().Unbroken)
	require.Equal(t, 24*time.Hour, f.locks.request().Wait)
	require.Equal(t, http.StatusOK, f.send("both", http.MethodPost, "/v1/locks/orders/acquire", waits).status)
	require.True(t, f.locks.request().Unbroken)
	require.Equal(t, 24*time.Hour, f.locks.request().Wait)
	r := f.send("both", http.MethodPost, "/v1/locks/orders/acquire", strings.Replace(waits, "true", `true, "waitMillis": 90000`, 1))
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, 90*time.Second, f.locks.request().Wait)
	r = f.send("both", http.MethodPost, "/api/v1/locks/orders/acquire", `{"client_id": "w1", "wait_timeout_ms": 90000}`)
	require.Equal(t, http.StatusOK, r.status)
	require.True(t, f.locks.request().Unbroken)
	require.Equal(t, 90*time.Second, f.locks.request().Wait)
}

// The server bounds the time of an answer by a minute, of those that do not wait longer.
func TestLongWaitIsAnsweredInTheSameRequest(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/locks/orders/acquire":     `{"ownerId": "w1", "requestId": "r1", "wait": true}`,
		"/api/v1/locks/orders/acquire": `{"client_id": "w1", "wait_timeout_ms": 86400000}`,
	} {
		faketime.Test(t, func(t *testing.T) {
			f := newFixture(t, &scripted{waiting: make(chan struct{})})
			f.server.Config.WriteTimeout = time.Minute
			time.AfterFunc(3*time.Hour, func() { close(f.locks.waiting) })
			began := time.Now()
			require.Equal(t, http.StatusOK, f.send("both", http.MethodPost, path, body).status)
			require.Equal(t, 3*time.Hour, time.Since(began))
		})
	}
}

func TestWaiterOfAStoppingReplicaIsAskedToRepeatTheRequest(t *testing.T) {
	f := newFixture(t, &scripted{err: &lease.WaitingError{}})
	const waits = `{"ownerId": "w1", "requestId": "r1", "wait": true}`
	r := f.send("both", http.MethodPost, "/v1/locks/orders/acquire", waits)
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Equal(t, "UNAVAILABLE", r.json(t)["error"])
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Equal(t, http.StatusAccepted, f.send("both", http.MethodPost, acquirePath, waits).status)
}

func TestPathWithoutItsNamespaceNamesTheRightOne(t *testing.T) {
	f := newFixture(t, &scripted{err: lease.ErrNotFound})
	for path, detail := range map[string]string{
		"/v1/locks/orders":         "/v1/locks?namespace=",
		"/v1/locks/orders/events":  "/v1/locks/{namespace}/{key}/events",
		"/v1/locks/orders/history": "/v1/locks/{namespace}/{key}/history",
	} {
		r := f.send("both", http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, r.status)
		require.Equal(t, false, r.json(t)["locked"])
		require.Contains(t, r.json(t)["detail"], detail)
	}
	r := f.send("client", http.MethodPost, "/v1/locks/own/acquire", acquireBody)
	require.Equal(t, "FORBIDDEN", r.code(t))
	require.Contains(t, r.json(t)["detail"], "the namespace default")
}
