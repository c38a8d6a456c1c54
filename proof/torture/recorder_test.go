// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// The registers have decided by the instants of the grants, and the czxids may have another order.
func TestGrantWithoutATokenGetsItsCzxidAndItsWritesKeepTheirToken(t *testing.T) {
	r := &recorder{events: []history.Event{
		{Kind: history.Created, Node: "/a/1", Zxid: 7},
		{Kind: history.Granted, Attempt: 1, Node: "/a/1", Token: 1_000},
		{Kind: history.Wrote, Attempt: 1, Token: 1_000},
	}}
	require.NoError(t, r.replaceTokens())
	require.Equal(t, history.ID(7), r.events[1].Token)
	require.Equal(t, history.ID(1_000), r.events[2].Token)

	r.events = append(r.events, history.Event{Kind: history.Granted, Attempt: 2, Node: "/a/2", Token: 2_000})
	require.ErrorContains(t, r.replaceTokens(), "no server has logged the creation of /a/2, the node of a grant")
}
