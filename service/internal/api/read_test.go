// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"net/http"
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
