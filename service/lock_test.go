// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestLockIsHeldByOneOwnerUntilItIsReleased(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	r := replicas()
	r.send("team", http.MethodGet, orders, "").is(404, "LOCK_NOT_FOUND")
	first := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	require.Equal(t, "orders", first.text("lockKey"))
	require.EqualValues(t, 30_000, first.body["ttlMillis"])
	require.GreaterOrEqual(t, first.body["validMillis"], 30_000.0)

	refused := r.post("team", orders+"/acquire", request("w2", "r2", "")).is(409, "LOCK_ALREADY_HELD")
	require.Equal(t, "w1", refused.text("currentOwner"))
	require.NotEmpty(t, refused.header.Get("Retry-After"))

	again := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	require.Equal(t, first.text("fencingToken"), again.text("fencingToken"), "one requestId gets one grant")
	require.Equal(t, first.text("lockToken"), again.text("lockToken"))
	r.post("team", orders+"/acquire", request("w1", "r1", `, "reentrant": true`)).is(422, "REQUEST_MISMATCH")

	now := r.send("team", http.MethodGet, orders, "").is(200, "")
	require.Equal(t, []any{true, "w1", "lease", first.text("fencingToken")},
		[]any{now.body["locked"], now.body["ownerId"], now.body["kind"], now.body["fencingToken"]})

	r.post("team", orders+"/renew", proof(first)).is(200, "")
	r.post("team", orders+"/release", proof(first)).is(200, "")
	r.post("team", orders+"/renew", proof(first)).is(410, "LOCK_EXPIRED")
	second := r.post("team", orders+"/acquire", request("w2", "r3", "")).is(200, "")
	require.Greater(t, second.token(), first.token())
}

func TestLeaseAndPositionOutliveTheirReplica(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	one, two := replicas(), replicas()
	held := one.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	polled := make(chan *response, 1)
	go func() {
		answer, _ := one.try(t.Context(), "team", http.MethodPost, orders+"/acquire", request("w2", "r2", `, "waitMillis": 600000`))
		polled <- answer
	}()
	require.Eventually(t, func() bool {
		return two.send("team", http.MethodGet, orders, "").body["queueLength"] == 1.0
	}, patience, 10*time.Millisecond)

	require.NoError(t, one.stop())
	answer := <-polled
	require.NotNil(t, answer)
	answer.is(202, "")
	require.EqualValues(t, 1, answer.body["position"])
	require.Equal(t, "w1", answer.text("currentOwner"))

	two.post("team", orders+"/acquire", request("w3", "r3", "")).is(409, "LOCK_ALREADY_HELD")
	go func() {
		answer, _ := two.try(t.Context(), "team", http.MethodPost, orders+"/acquire", request("w2", "r2", `, "waitMillis": 600000`))
		polled <- answer
	}()
	two.post("team", orders+"/renew", proof(held)).is(200, "")
	two.post("team", orders+"/release", proof(held)).is(200, "")
	answer = <-polled
	require.NotNil(t, answer)
	answer.is(200, "")
}

func TestHolderOfRevokedLeaseLearnsTheReason(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	r := replicas()
	held := r.post("team", orders+"/acquire", request("w1", "r1", `, "ttlMillis": 10000`)).is(200, "")
	force := func(token string) *response {
		return r.post("ops", orders+"/force-release", fmt.Sprintf(`{"fencingToken": %s, "reason": "stuck"}`, token))
	}
	require.Equal(t, held.text("fencingToken"), force("1").is(409, "HOLDER_CHANGED").text("fencingToken"))
	require.Equal(t, true, force(held.text("fencingToken")).is(200, "").body["notified"])
	gone := r.post("team", orders+"/renew", proof(held)).is(410, "LOCK_REVOKED")
	require.Equal(t, []string{"ops", "stuck"}, []string{gone.text("revokedBy"), gone.text("reason")})
	require.Eventually(t, func() bool {
		return r.send("team", http.MethodGet, orders, "").status == http.StatusNotFound
	}, patience, 10*time.Millisecond, "the lock is free once the holder must have stopped")
	force(held.text("fencingToken")).is(404, "LOCK_NOT_FOUND")
}

func TestServiceAndLibraryExcludeEachOther(t *testing.T) {
	t.Parallel()
	e, replicas := ensemble(t, 1, 0)
	r := replicas()
	client, err := recipes.Connect(t.Context(), e.Addrs(), &recipes.Options{Owner: "library"})
	require.NoError(t, err)
	defer client.Close()
	mutex, err := lock.New(client, "/lockkeeper/team/orders", nil)
	require.NoError(t, err)
	hold, err := mutex.Lock(t.Context())
	require.NoError(t, err)
	refused := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(409, "LOCK_ALREADY_HELD")
	require.Equal(t, "library", refused.text("currentOwner"))
	require.Equal(t, "session", r.send("team", http.MethodGet, orders, "").text("kind"))
	require.NoError(t, hold.Unlock(t.Context()))

	held := r.post("team", orders+"/acquire", request("w1", "r2", "")).is(200, "")
	_, err = mutex.TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrLocked)
	r.post("team", orders+"/release", proof(held)).is(200, "")
	hold, err = mutex.Lock(t.Context())
	require.NoError(t, err)
	require.Greater(t, hold.Token(), held.token())
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestNamespacesAndKeysAreListedInPages(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	r := replicas()
	for _, key := range []string{"a%2Fb", "a%2E", "%2E%2E", "b"} {
		r.post("team", "/v1/locks/team/"+key+"/acquire", request("w1", "r-"+key, "")).is(200, "")
	}
	r.post("sales", "/v1/locks/sales/c/acquire", request("w1", "r1", "")).is(200, "")
	list := func(path string) (keys []string, next string) {
		page := r.send("team", http.MethodGet, path, "").is(200, "")
		for _, l := range page.body["locks"].([]any) {
			keys = append(keys, l.(map[string]any)["lockKey"].(string))
		}
		return keys, page.text("nextPage")
	}
	keys, next := list("/v1/locks?namespace=team")
	require.Equal(t, []string{"..", "a/b", "a.", "b"}, keys, "in the order of the nodes' names")
	require.Empty(t, next)
	keys, _ = list("/v1/locks?namespace=team&prefix=a")
	require.Equal(t, []string{"a/b", "a."}, keys)
	keys, next = list("/v1/locks?namespace=team&limit=3")
	require.Len(t, keys, 3)
	keys, next = list("/v1/locks?namespace=team&limit=3&page=" + next)
	require.Equal(t, []string{"b"}, keys)
	require.Empty(t, next)
	r.send("team", http.MethodGet, "/v1/locks?namespace=sales", "").is(403, "FORBIDDEN")
}

func TestLeaderPublishesItsValue(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	r := replicas()
	const path = "/v1/elections/team/shard-1"
	r.send("team", http.MethodGet, path+"/leader", "").is(404, "LOCK_NOT_FOUND")
	term := r.post("team", path+"/campaign", request("w1", "r1", `, "value": "10.0.0.1:80"`)).is(200, "")
	leader := r.send("team", http.MethodGet, path+"/leader", "").is(200, "")
	require.Equal(t, []string{"w1", "10.0.0.1:80"}, []string{leader.text("ownerId"), leader.text("value")})
	r.post("team", path+"/campaign", request("w2", "r2", "")).is(409, "LOCK_ALREADY_HELD")
	r.post("team", "/v1/locks/team/shard-1/acquire", request("w2", "r3", "")).is(409, "LOCK_ALREADY_HELD")
	r.post("team", path+"/renew", proof(term)).is(200, "")
	r.post("team", path+"/resign", proof(term)).is(200, "")
	r.post("team", path+"/campaign", request("w2", "r4", "")).is(200, "")
}
