// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// past returns the history of a lock, as action, owner or principal, and reason.
func (r *replica) past(path string) (rows []string) {
	r.t.Helper()
	answer := r.send("team", "GET", path+"/history", "").is(200, "")
	for _, e := range answer.body["history"].([]any) {
		var words []string
		for _, field := range []string{"action", "ownerId", "by", "reason"} {
			if word, ok := e.(map[string]any)[field].(string); ok {
				words = append(words, word)
			}
		}
		rows = append(rows, strings.Join(words, " "))
	}
	return rows
}

func TestHistoryNamesTheLastOwnersAndForcedReleases(t *testing.T) {
	t.Parallel()
	_, replicas := ensemble(t, 1, 0)
	one, two := replicas(), replicas()
	require.Empty(t, one.past(orders))
	first := one.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	two.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	one.post("team", orders+"/release", proof(first)).is(200, "")
	second := two.post("team", orders+"/acquire", request("w2", "r2", "")).is(200, "")
	one.post("team", orders+"/acquire", request("w3", "r3", "")).is(409, "LOCK_ALREADY_HELD")
	force := func(mode string) {
		one.post("ops", orders+"/force-release", fmt.Sprintf(`{"fencingToken": %d, "reason": "stuck", "mode": %q}`, second.token(), mode)).is(200, "")
	}
	force("safe")
	force("now")
	one.post("team", orders+"/acquire", request("w3", "r4", "")).is(200, "")
	want := []string{"acquired w3", "revoked ops stuck", "force-released ops stuck", "acquired w2", "acquired w1"}
	for _, r := range []*replica{one, two} {
		require.Eventually(t, func() bool { return len(r.past(orders)) == len(want) }, patience, 100*time.Millisecond)
		require.Equal(t, want, r.past(orders))
	}
	require.Empty(t, one.past("/v1/locks/team/other"))
	two.send("sales", "GET", orders+"/history", "").is(403, "FORBIDDEN")

	require.NoError(t, one.stop())
	require.NoError(t, two.stop())
	require.Equal(t, want, replicas().past(orders), "it outlives the replicas")
}
