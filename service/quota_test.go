// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestFullNamespaceRefusesNewKeysOnly(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, nil)
	principalsFile, keysFile := credentials(t)
	r := start(t, service.Config{Servers: e.Addrs(), Principals: principalsFile, TokenKeys: keysFile, Keys: 2})
	acquire := func(key, owner string) *response {
		return r.post("team", "/v1/locks/team/"+key+"/acquire", request(owner, key, ""))
	}
	one := acquire("one", "w1").is(200, "")
	for range 10 {
		acquire("one", "w2").is(409, "LOCK_ALREADY_HELD")
	}
	acquire("two", "w1").is(200, "")
	refused := acquire("three", "w1").is(429, "TOO_MANY_KEYS")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Equal(t, one.text("fencingToken"), acquire("one", "w1").is(200, "").text("fencingToken"))
	acquire("two", "w2").is(409, "LOCK_ALREADY_HELD")
	r.post("team", "/v1/elections/team/three/campaign", request("w1", "r", "")).is(429, "TOO_MANY_KEYS")
	r.post("sales", "/v1/locks/sales/three/acquire", request("w1", "r", "")).is(200, "")

	r.post("team", "/v1/locks/team/one/release", proof(one)).is(200, "")
	e.CheckContainers()
	require.Eventually(t, func() bool { return acquire("three", "w1").status == http.StatusOK }, patience, 50*time.Millisecond)
}

func TestQuotaCostsOneReadForManyLocks(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, nil)
	principalsFile, keysFile := credentials(t)
	r := start(t, service.Config{Servers: e.Addrs(), Principals: principalsFile, TokenKeys: keysFile})
	reads := e.Intercept(zktest.Rule{Op: "getData", Path: "/lockkeeper/team"})
	began := time.Now()
	for i := range 100 {
		r.post("team", fmt.Sprintf("/v1/locks/team/k%d/acquire", i), request("w1", "r1", "")).is(200, "")
	}
	require.LessOrEqual(t, reads.Fired(), 1+int(time.Since(began)/(5*time.Second)))
}

// ZooKeeper lists the names of all keys in one answer, and every list of locks reads it.
func TestLongKeysCountAsSeveral(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, nil)
	principalsFile, keysFile := credentials(t)
	r := start(t, service.Config{Servers: e.Addrs(), Principals: principalsFile, TokenKeys: keysFile, Keys: 10})
	acquire := func(key, owner string) *response {
		return r.post("team", "/v1/locks/team/"+key+"/acquire", request(owner, "r", ""))
	}
	long, longer, encoded := strings.Repeat("a", 200), strings.Repeat("b", 512), strings.Repeat("%C3%A9", 35)
	acquire("one", "w1").is(200, "")
	acquire("two", "w1").is(200, "")
	acquire(longer, "w1").is(429, "TOO_MANY_KEYS")
	acquire("three", "w1").is(200, "")
	acquire(long, "w1").is(200, "")
	acquire(encoded, "w1").is(429, "TOO_MANY_KEYS") // 70 bytes, and 210 in ZooKeeper
	acquire("c"+long, "w1").is(429, "TOO_MANY_KEYS")
	acquire(long, "w2").is(409, "LOCK_ALREADY_HELD")
	acquire(strings.Repeat("d", 64), "w1").is(200, "")
	for _, key := range []string{"six", "seven", "eight", "nine"} {
		acquire(key, "w1").is(200, "")
	}
	acquire(strings.Repeat("e", 72), "w1").is(429, "TOO_MANY_KEYS")
	acquire("ten", "w1").is(200, "")
	acquire("eleven", "w1").is(429, "TOO_MANY_KEYS")
}
