// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A replica is a separate process: a client with its own session.
type replica struct {
	client *recipes.Client
	terms  chan fencing.Token // gets the token of each term
}

// run runs a replica until the test ends.
func run(t *testing.T, servers []string) replica {
	t.Helper()
	client, err := recipes.Connect(t.Context(), servers, nil)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	r := replica{client: client, terms: make(chan fencing.Token, 8)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- sweep(ctx, client, func(token fencing.Token) { r.terms <- token }) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return r
}

func TestWorkMovesWhenSessionOfLeaderExpires(t *testing.T) {
	servers := start(t)
	a := run(t, servers.Addrs())
	first := <-a.terms
	b := run(t, servers.Addrs())
	require.NoError(t, servers.Expire(t.Context(), a.client.SessionID()))
	var second fencing.Token
	select {
	case second = <-a.terms: // b has not joined yet
	case second = <-b.terms:
	}
	var gate fencing.Gate // at the resource that the sweeper writes
	require.NoError(t, gate.Admit(second))
	require.ErrorIs(t, gate.Admit(first), fencing.ErrStale)
}

func TestWorkBeginsAfterServerWasKilled(t *testing.T) {
	servers := start(t)
	leader, err := servers.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, leader.Kill(t.Context()))
	<-run(t, servers.Addrs()).terms
}
