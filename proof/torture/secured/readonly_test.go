// SPDX-License-Identifier: Apache-2.0

package secured

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A server without a quorum that serves reads only would let a client believe that it has a session.
func TestReadOnlyServerIsRefused(t *testing.T) {
	t.Parallel() // mostly the tests wait
	ensemble := docker.Start(t, &docker.Options{Servers: 3, Properties: map[string]string{"readonlymode.enabled": "true"}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := ensemble.Servers()[0]
	opts := &recipes.Options{SessionTimeout: 4 * time.Second, Logger: slog.New(slog.DiscardHandler)}
	client, err := recipes.Connect(ctx, []string{last.Addr()}, opts)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	s := &server{t: t}
	hold, err := s.lock(client, "/l")
	require.NoError(t, err)

	for _, other := range ensemble.Servers()[1:] {
		require.NoError(t, other.Kill(ctx))
	}
	for {
		mode, err := last.Mode(ctx)
		if err == nil && mode == "read-only" {
			break
		}
		require.NoError(t, ctx.Err(), "server in mode %q: %v", mode, err)
		time.Sleep(20 * time.Millisecond) // each look is a connection
	}
	<-hold.Done()
	require.ErrorIs(t, hold.Err(), recipes.ErrDeadline)
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = recipes.Connect(short, []string{last.Addr()}, opts)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "not serving (no quorum, read-only)")
	require.False(t, client.State().Attached)
}
