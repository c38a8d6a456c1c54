// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A status has only the first contenders.
func TestQueueLengthCountsAllThatWait(t *testing.T) {
	f := newFixture(t, &scripted{status: lease.Status{Contenders: []recipes.Contender{held, held}, More: 40}})
	for path, field := range map[string]string{
		"/v1/locks/own/orders": `"queueLength":41`, "/v1/elections/own/orders/leader": `"candidates":41`,
	} {
		res := f.send("client", http.MethodGet, path, "")
		require.Contains(t, string(res.body), field)
	}
}
