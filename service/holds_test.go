// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exports reports whether a replica's metrics have all of these rows.
func (r *replica) exports(rows ...string) bool {
	r.t.Helper()
	res, err := r.client.Get(r.url + "/metrics")
	require.NoError(r.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, res.Body.Close())
	for _, row := range rows {
		if !strings.Contains(string(text), "\nlockkeeper_service_"+row+"\n") {
			return false
		}
	}
	return true
}

func TestMetricsCountLeasesTheirOwnersAndTheirHolds(t *testing.T) {
	t.Parallel()
	_, replicas, files := audited(t, 1)
	r := replicas[0]
	first := r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	r.post("team", "/v1/locks/team/other/acquire", request("w1", "r2", "")).is(200, "")
	r.post("sales", "/v1/locks/sales/other/acquire", request("w1", "r2", "")).is(200, "")
	r.post("team", "/v1/elections/team/shard/campaign", request("w2", "r3", "")).is(200, "")
	r.post("team", orders+"/acquire", request("w2", "r4", "")).is(409, "LOCK_ALREADY_HELD")
	require.True(t, r.exports(
		`leases{kind="lock"} 3`, `leases{kind="election"} 1`, "sessions 3", "overdue_leases 0", `hold_seconds_count{kind="lock"} 0`,
		"grant_duration_seconds_count 5",
	))
	r.post("team", orders+"/renew", proof(first)).is(200, "")
	r.post("team", orders+"/release", proof(first)).is(200, "")
	require.True(t, r.exports(`leases{kind="lock"} 2`, "sessions 3", `hold_seconds_count{kind="lock"} 1`))

	short := r.post("team", orders+"/acquire", request("w3", "r5", `, "ttlMillis": 1000`)).is(200, "")
	// A scrape drops a lease that has run out a second before, and whose end has not been counted: the audit has it after that.
	require.Eventually(t, func() bool { return len(find(t, files[0], "expire")) == 1 }, patience, 20*time.Millisecond,
		"this replica deletes the lease that it wrote last")
	require.True(t, r.exports(`hold_seconds_count{kind="lock"} 2`))
	require.True(t, r.exports(`leases{kind="lock"} 2`))
	r.post("team", orders+"/renew", proof(short)).is(410, "LOCK_EXPIRED")
	stuck := r.post("team", orders+"/acquire", request("w4", "r6", "")).is(200, "")
	r.post("ops", orders+"/force-release", `{"fencingToken": `+stuck.text("fencingToken")+`, "reason": "r", "mode": "now"}`).is(200, "")
	require.True(t, r.exports(`hold_seconds_count{kind="lock"} 3`))
	r.send("team", http.MethodGet, orders, "").is(404, "LOCK_NOT_FOUND")
}
