// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestClientForgetsEndedRegistrationsOfPathsThatAreNotUsedAgain(t *testing.T) {
	for _, ends := range []bool{false, true} {
		faketime.Test(t, func(t *testing.T) {
			servers, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: time.Second})
			require.NoError(t, err)
			defer func() { require.NoError(t, servers.Close()) }()
			link := servers.Link()
			client, err := recipes.Connect(t.Context(), servers.Addrs(), &recipes.Options{
				SessionTimeout: 4 * time.Second, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			defer client.Close()
			var all []*Registration
			for i := range 10 {
				r, err := Register(t.Context(), client, fmt.Sprintf("/members/%d", i), nil, &Options{ReleaseTimeout: time.Millisecond})
				require.NoError(t, err)
				all = append(all, r)
			}
			link.Refuse(true)
			link.Reset()
			time.Sleep(time.Millisecond)
			for _, r := range all {
				require.ErrorIs(t, r.Unregister(context.Background()), recipes.ErrUncertain)
			}
			require.Equal(t, 10, remembered(client), "their nodes may exist")
			if ends {
				time.Sleep(10 * client.SessionTimeout()) // the session ends
			}
			link.Refuse(false)
			time.Sleep(4 * client.SessionTimeout())
			require.Zero(t, remembered(client))
		})
	}
}

// remembered returns how many registrations the client keeps.
func remembered(c *recipes.Client) int {
	rs := registered.Of(client.Of(c))
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.byPath)
}
