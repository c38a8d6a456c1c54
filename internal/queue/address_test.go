// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A name whose address changes, as a pod's does, is resolved at each attempt to connect: the claim continues.
func TestClaimContinuesWhenTheNameOfItsServerHasAnotherAddress(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const timeout = 8 * time.Second
		servers, err := zktest.Run(t.Context(), &zktest.Options{Servers: 3, InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, servers.Close()) }()
		var address atomic.Value // that the name has now
		address.Store(servers.Addrs()[1])
		client, err := recipes.Connect(t.Context(), []string{"zk.example.org"}, &recipes.Options{
			SessionTimeout: timeout, Logger: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, network, name string) (net.Conn, error) {
				require.Equal(t, "zk.example.org:2181", name, "the name, and not an address that it had")
				return servers.Dial(ctx, network, address.Load().(string))
			},
		})
		require.NoError(t, err)
		defer client.Close()
		queue, err := queue.New(client, "/l", nil)
		require.NoError(t, err)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)

		require.NoError(t, servers.Server(2).Kill(t.Context())) // its address answers no more
		time.Sleep(timeout / 16)
		address.Store(servers.Addrs()[2])
		time.Sleep(timeout)
		require.NoError(t, claim.Err())
		require.NoError(t, claim.Check(t.Context()))
	})
}

func TestClientConnectsToAnIPv6Address(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		need.Lacking(t, "this machine has no IPv6: %v", err)
	}
	require.NoError(t, probe.Close())
	servers := zktest.Start(t, &zktest.Options{Addr: "[::1]:0"})
	require.Contains(t, servers.Addrs()[0], "[::1]:")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := recipes.Connect(ctx, servers.Addrs(), &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer client.Close()
	queue, err := queue.New(client, "/l", nil)
	require.NoError(t, err)
	claim, err := queue.Claim(ctx)
	require.NoError(t, err)
	require.NoError(t, claim.Check(ctx))
	require.NoError(t, queue.Release(ctx, claim))
}
