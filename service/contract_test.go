// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// curl sends a body with curl, as a principal. Without a body it is a GET.
func (r *replica) curl(who, path, body string) *response {
	r.t.Helper()
	args := []string{"-sS", "-H", "Authorization: Bearer " + who, "-w", "\n%{http_code}", r.url + path}
	if body != "" {
		args = append(args, "-H", "Content-Type: application/json", "-d", body)
	}
	output, err := exec.CommandContext(r.t.Context(), "curl", args...).CombinedOutput()
	require.NoError(r.t, err, "%s", output)
	answer := &response{t: r.t}
	end := strings.LastIndexByte(string(output), '\n')
	_, err = fmt.Sscan(string(output[end:]), &answer.status)
	require.NoError(r.t, err)
	require.NoError(r.t, json.Unmarshal(output[:end], &answer.body), "%s", output)
	return answer
}

// has checks the status of an answer, and the fields that the contract has, which want names in JSON. A value of null stands
// for any value.
func (r *response) has(status int, want string) *response {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%v", r.body)
	fields := map[string]any{}
	require.NoError(r.t, json.Unmarshal([]byte(want), &fields))
	for name, value := range fields {
		require.Contains(r.t, r.body, name)
		if value != nil {
			require.Equal(r.t, value, r.body[name], name)
		}
	}
	return r
}

// waitFor runs an acquire that waits until f has ended another lease.
func waitFor(t *testing.T, acquire func() *response, queued func() bool, f func()) *response {
	t.Helper()
	answer := make(chan *response, 1)
	go func() { answer <- acquire() }()
	require.Eventually(t, queued, patience, 20*time.Millisecond)
	f()
	select {
	case r := <-answer:
		return r
	case <-time.After(patience):
		require.Fail(t, "the waiter was not granted the lock")
		return nil
	}
}

func TestContractOfLockKeysWorksAsWritten(t *testing.T) {
	t.Parallel()
	need.Program(t, "curl", "install it")
	_, replicas := ensemble(t, 1, 0)
	one, two := replicas(), replicas()
	const lock = "/v1/locks/invoice-123"
	one.curl("app", lock, "").has(404, `{"locked": false}`)
	const first = `{"ownerId": "worker-1", "ttlMillis": 30000, "wait": true, "requestId": "request-1"}`
	held := one.curl("app", lock+"/acquire", first).
		has(200, `{"lockKey": "invoice-123", "lockToken": null, "ownerId": "worker-1", "expiresAt": null}`)
	require.InDelta(t, time.Now().Add(30*time.Second).UnixMilli(), held.body["expiresAt"], 20_000)
	again := two.curl("app", lock+"/acquire", first).has(200, `{"ownerId": "worker-1"}`)
	require.Equal(t, held.text("lockToken"), again.text("lockToken"), "a repeat answers the same")

	const second = `{"ownerId": "worker-2", "ttlMillis": 30000, "wait": %v, "requestId": "request-2"}`
	refused := two.curl("app", lock+"/acquire", fmt.Sprintf(second, false)).
		has(409, `{"error": "LOCK_ALREADY_HELD", "currentOwner": "worker-1", "retryAfterMillis": null}`)
	require.Positive(t, refused.body["retryAfterMillis"])
	two.curl("app", lock, "").has(200, `{
		"lockKey": "invoice-123", "locked": true, "ownerId": "worker-1", "expiresAt": null, "createdAt": null, "updatedAt": null,
		"reentrancyCount": 1
	}`)
	list := one.curl("app", "/v1/locks?namespace=default", "").has(200, `{"locks": null}`)
	require.Equal(t, "invoice-123", list.body["locks"].([]any)[0].(map[string]any)["lockKey"])

	proof := func(owner string, of *response) string {
		return fmt.Sprintf(`{"lockToken": %q, "ownerId": %q}`, of.text("lockToken"), owner)
	}
	renewal := func(of *response) string {
		return fmt.Sprintf(`{"lockToken": %q, "ownerId": %q, "ttlMillis": 40000}`, of.text("lockToken"), of.text("ownerId"))
	}
	two.curl("app", lock+"/renew", renewal(held)).has(200, `{"lockKey": "invoice-123", "expiresAt": null}`)
	two.curl("app", lock+"/release", proof("worker-2", held)).has(403, `{"error": "NOT_LOCK_OWNER"}`)
	two.curl("app", lock+"/renew", strings.Replace(renewal(held), "worker-1", "worker-2", 1)).has(403, `{"error": "NOT_LOCK_OWNER"}`)
	one.curl("team", lock+"/release", proof("worker-1", held)).has(403, `{"error": "FORBIDDEN"}`)

	// The namespace of a path with one is another name for the same lock.
	queued := func() bool {
		return one.send("app", "GET", "/v1/locks/default/invoice-123", "").body["queueLength"] == 1.0
	}
	next := waitFor(t, func() *response { return two.curl("app", lock+"/acquire", fmt.Sprintf(second, true)) }, queued, func() {
		one.curl("app", lock+"/release", proof("worker-1", held)).has(200, `{"status": "RELEASED", "lockKey": "invoice-123"}`)
	}).has(200, `{"lockKey": "invoice-123", "lockToken": null, "ownerId": "worker-2", "expiresAt": null}`)
	require.Greater(t, next.token(), held.token())
	for _, r := range []*replica{one, two} {
		r.curl("app", lock+"/release", proof("worker-1", held)).has(200, `{"status": "RELEASED", "lockKey": "invoice-123"}`)
		r.curl("app", lock+"/renew", renewal(held)).has(409, `{"error": "LOCK_EXPIRED"}`)
	}

	const force = `{"reason": "the worker is stuck"}`
	two.curl("app", lock+"/force-release", force).has(403, `{"error": "FORBIDDEN"}`)
	two.curl("ops", lock+"/force-release", force).has(200, `{"status": "FORCE_RELEASED"}`)
	one.curl("app", lock, "").has(404, `{"locked": false}`)
	two.curl("app", lock+"/renew", renewal(next)).has(409, `{"error": "LOCK_EXPIRED"}`)
	two.curl("ops", lock+"/force-release", force).has(404, `{"error": "LOCK_NOT_FOUND"}`)
}

func TestContractOfFencingTokensWorksAsWritten(t *testing.T) {
	t.Parallel()
	need.Program(t, "curl", "install it")
	_, replicas := ensemble(t, 1, 0)
	one, two := replicas(), replicas()
	const lock, status = "/api/v1/locks/daily-report", "/v1/locks/daily-report"
	const first = `{"client_id": "client-1", "ttl_ms": 30000, "wait_timeout_ms": 5000}`
	held := one.curl("app", lock+"/acquire", first).has(200, `{"acquired": true, "fencing_token": null, "expires_at": null}`)
	expires, err := time.Parse(time.RFC3339, held.text("expires_at"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(30*time.Second), expires, 20*time.Second)
	token, isNumber := held.body["fencing_token"].(float64)
	require.True(t, isNumber)
	require.Less(t, token, float64(1<<53))
	again := two.curl("app", lock+"/acquire", first).has(200, `{"acquired": true, "expires_at": null}`)
	require.Equal(t, held.body["fencing_token"], again.body["fencing_token"], "the client holds the lock already")

	const second = `{"client_id": "client-2", "ttl_ms": 30000, "wait_timeout_ms": %d}`
	two.curl("app", lock+"/acquire", fmt.Sprintf(second, 100)).
		has(409, `{"error": "LOCK_ALREADY_HELD", "currentOwner": "client-1", "retryAfterMillis": null}`)
	proof := func(client string, token float64, rest string) string {
		return fmt.Sprintf(`{"client_id": %q, "fencing_token": %.0f%s}`, client, token, rest)
	}
	for _, r := range []*replica{one, two} {
		renewed := r.curl("app", lock+"/renew", proof("client-1", token, `, "ttl_ms": 40000`)).has(200, `{"renewed": true, "new_expires_at": null}`)
		_, err = time.Parse(time.RFC3339, renewed.text("new_expires_at"))
		require.NoError(t, err)
		r.curl("app", lock+"/renew", proof("client-2", token, "")).has(403, `{"error": "NOT_LOCK_OWNER"}`)
		r.curl("app", lock+"/release", proof("client-2", token, "")).has(403, `{"error": "NOT_LOCK_OWNER"}`)
		r.curl("app", lock+"/release", proof("client-1", token-1, "")).has(403, `{"error": "NOT_LOCK_OWNER"}`)
		r.curl("app", lock+"/release", proof("client-1", token+1, "")).has(403, `{"error": "NOT_LOCK_OWNER"}`)
		r.curl("team", lock+"/release", proof("client-1", token, "")).has(403, `{"error": "FORBIDDEN"}`)
	}
	queued := func() bool {
		return one.send("app", "GET", "/v1/locks/default/daily-report", "").body["queueLength"] == 1.0
	}
	next := waitFor(t, func() *response { return one.curl("app", lock+"/acquire", fmt.Sprintf(second, 60_000)) }, queued, func() {
		two.curl("app", lock+"/release", proof("client-1", token, "")).has(200, `{"released": true}`)
	}).has(200, `{"acquired": true}`)
	require.Greater(t, next.body["fencing_token"], token)
	for _, r := range []*replica{one, two} {
		r.curl("app", lock+"/release", proof("client-1", token, "")).has(200, `{"released": true}`)
		r.curl("app", lock+"/renew", proof("client-1", token, "")).has(409, `{"error": "LOCK_EXPIRED"}`)
	}
	one.curl("app", status, "").has(200, `{"locked": true, "ownerId": "client-2"}`)
	two.curl("app", lock+"/release", proof("client-2", next.body["fencing_token"].(float64), "")).has(200, `{"released": true}`)
	one.curl("app", status, "").has(404, `{"locked": false}`)
	two.curl("app", lock+"/renew", proof("client-2", next.body["fencing_token"].(float64), "")).has(409, `{"error": "LOCK_EXPIRED"}`)
}

// All may read a fencing token. It must not be worth a lock token.
func TestFencingTokenEndsNoLeaseThatHasALockToken(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	r := replicas()
	held := r.post("app", "/v1/locks/default/orders/acquire", request("w1", "r1", "")).is(200, "")
	presented := fmt.Sprintf(`{"client_id": "w1", "fencing_token": %d}`, held.token())
	r.post("app", "/api/v1/locks/orders/release", presented).is(403, "NOT_LOCK_OWNER")
	r.post("app", "/api/v1/locks/orders/renew", presented).is(403, "NOT_LOCK_OWNER")
	r.post("app", "/api/v1/locks/orders/acquire", `{"client_id": "w1"}`).is(409, "LOCK_ALREADY_HELD")
	r.post("app", "/v1/locks/default/orders/renew", proof(held)).is(200, "")
}

func TestKeysCanBeCalledLikeActions(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	r := replicas()
	for _, key := range []string{"acquire", "release", "renew", "force-release", "events", "history", "a%2Facquire", "%2E%2E", "%2F"} {
		for _, base := range []string{"/v1/locks/team/" + key, "/v1/locks/" + key} {
			who := "app"
			if strings.HasPrefix(base, "/v1/locks/team/") {
				who = "team"
			}
			held := r.post(who, base+"/acquire", request("w-"+base, "r1", "")).is(200, "")
			now := r.send(who, "GET", base, "").is(200, "")
			require.Equal(t, "w-"+base, now.text("ownerId"), base)
			r.post(who, base+"/renew", proof(held)).is(200, "")
			r.post(who, base+"/release", proof(held)).is(200, "")
			r.send(who, "GET", base, "").is(404, "LOCK_NOT_FOUND")
		}
	}
}

func TestWaiterOfALongRequestKeepsItsPositionAndLeavesWithItsConnection(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	one, two := replicas(), replicas()
	const lock = "/v1/locks/orders"
	held := one.post("app", lock+"/acquire", request("w1", "r1", "")).is(200, "")
	ask := func(ctx context.Context, r *replica, owner string) <-chan *response {
		answered := make(chan *response, 1)
		go func() {
			answer, _ := r.try(ctx, "app", "POST", lock+"/acquire", request(owner, "r of "+owner, `, "wait": true`))
			answered <- answer
		}()
		return answered
	}
	awaitQueue := func(length int) {
		require.Eventually(t, func() bool {
			return two.send("app", "GET", "/v1/locks/default/orders", "").body["queueLength"] == float64(length)
		}, patience, 20*time.Millisecond)
	}
	first := ask(t.Context(), one, "w2")
	awaitQueue(1)
	ctx, cancel := context.WithCancel(t.Context())
	gone := ask(ctx, two, "w3")
	awaitQueue(2)
	cancel()
	<-gone
	awaitQueue(1)

	require.NoError(t, one.stop())
	stopped := <-first
	require.NotNil(t, stopped)
	stopped.is(503, "UNAVAILABLE")
	last := ask(t.Context(), two, "w4")
	awaitQueue(2)
	again := ask(t.Context(), two, "w2")
	two.post("app", lock+"/renew", proof(held)).is(200, "")
	two.post("app", lock+"/release", proof(held)).is(200, "")
	granted := <-again
	require.NotNil(t, granted)
	two.post("app", lock+"/release", proof(granted.is(200, ""))).is(200, "")
	granted = <-last
	require.NotNil(t, granted)
	granted.is(200, "")
}
