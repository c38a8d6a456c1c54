// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A status has only the first contenders.
func TestQueueLengthCountsAllThatWait(t *testing.T) {
	f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{held, held}, More: 40}})
	for path, field := range map[string]string{
		"/v1/locks/own/orders": `"queueLength":41`, "/v1/elections/own/orders/leader": `"candidates":41`,
	} {
		res := f.send("client", http.MethodGet, path, "")
		require.Contains(t, string(res.body), field)
	}
}

// The caller of a waiter may have died: its node can be in front for 31 s, and is never granted.
func TestWaiterInFrontIsNeitherHolderNorLeader(t *testing.T) {
	front := held
	front.Held = false
	f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{front, front}, More: 40}})
	for path, want := range map[string]string{
		"/v1/locks/own/orders":            `{"lockKey":"orders","locked":false,"queueLength":42}`,
		"/v1/elections/own/orders/leader": `{"electionKey":"orders","elected":false,"candidates":42}`,
		"/v1/locks?namespace=own":         `"locked":false,"queueLength":2}`,
		"/v1/namespaces":                  `"locks":0,"waiters":2`,
	} {
		res := f.send("client", http.MethodGet, path, "")
		require.Contains(t, string(res.body), want)
		require.NotContains(t, string(res.body), front.Owner)
		require.NotContains(t, string(res.body), front.Lease.Metadata["value"])
	}
	list := string(f.send("client", http.MethodGet, "/?namespace=own", "").body)
	require.Contains(t, list, `<td data-label="Holder">none</td>`)
	require.Equal(t, 2, strings.Count(list, "<li><bdi>"+front.Owner), "both wait")
	page := string(f.send("admin", http.MethodGet, keyURL, "").body)
	require.Contains(t, page, "No client holds the lock.")
	require.Equal(t, 2, strings.Count(page, "<li><bdi>"+front.Owner), "both wait")
	require.Contains(t, page, "Force-release")
}

// No session and no TTL ends the third: the operator has to see that.
func TestStatusShowsWhatEndsTheHolder(t *testing.T) {
	for kind, front := range map[string]lease.Contender{
		"lease":      held,
		"session":    {Contender: recipes.Contender{Kind: recipes.KindSession, Session: 1}},
		"persistent": {},
		"foreign":    {Contender: recipes.Contender{Session: 1}},
	} {
		f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{front}}})
		res := f.send("client", http.MethodGet, "/v1/locks/own/orders", "")
		require.Equal(t, kind, res.json(t)["kind"])
	}
}
