// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/together"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestPathAndDataUpToTheLimitWork(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		var dials atomic.Int64
		client := s.loaded(recipes.Options{
			Namespace: "/" + strings.Repeat("n", zkpath.MaxPath/2), Owner: strings.Repeat("o", 4096),
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return s.Dial(ctx, network, address)
			},
		})
		var parts []together.Part
		for i := range 8 {
			parts = append(parts, together.Part{Queue: s.queue(client, "/"+strings.Repeat("q", zkpath.MaxPath/2-2-i))})
		}
		_, err := queue.New(client, "/"+strings.Repeat("q", zkpath.MaxPath/2), nil)
		require.ErrorContains(s, err, "131074 bytes is over the limit of 131072, with the namespace")

		ctx, cancel := context.WithTimeout(s.Context(), loadTimeout)
		defer cancel()
		_, err = together.Claim(ctx, parts...)
		require.ErrorIs(s, err, together.ErrApart, "eight do not fit one transaction")
		claims, err := together.Claim(ctx, parts[:2]...)
		require.NoError(s, err)
		node := s.node(client, "/"+strings.Repeat("d", zkpath.MaxPath/2-2))
		require.NoError(s, node.Create(ctx, make([]byte, zkpath.MaxNode-zkpath.MaxPath)))
		require.NoError(s, node.Replace(ctx, make([]byte, zkpath.MaxNode-zkpath.MaxPath), -1))
		time.Sleep(2 * loadTimeout)
		for _, claim := range claims {
			require.NoError(s, claim.Err(), "heartbeats fit, too")
		}
		require.EqualValues(s, 1, dials.Load())
	})
}
