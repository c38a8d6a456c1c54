// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestHolderThatDidNotReleaseIsWaitedOutAndFenced(t *testing.T) {
	servers := zktest.Start(t, nil)
	spec := &Spec{Name: "c1.1", Servers: servers.Addrs(), Timeout: history.Instant(4 * time.Second)}
	var reported []history.Event // by the acquisitions of this goroutine
	connect := func() Client {
		client, err := lockkeeper{}.Connect(t.Context(), spec)
		require.NoError(t, err)
		t.Cleanup(func() { client.Close() })
		client.(fencer).fenceWith("/delayed", func(e history.Event) { reported = append(reported, e) })
		return client
	}
	for _, how := range []string{"lock", "campaign"} {
		for _, path := range []string{"/delayed", "/other"} {
			reported = nil
			first, err := connect().Acquire(t.Context(), how, path)
			require.NoError(t, err)
			former := first.Grant()
			require.NoError(t, servers.Expire(t.Context(), int64(former.Session)))
			<-first.Done()
			began := time.Now()
			next, err := connect().Acquire(t.Context(), how, path)
			require.NoError(t, err)
			if path == "/delayed" {
				require.Equal(t, []history.Event{{Kind: history.Fenced, Path: path, Token: former.Token}}, reported)
				require.GreaterOrEqual(t, time.Since(began), LockDelay)
			} else {
				require.Empty(t, reported)
			}
			require.NoError(t, next.Release(t.Context()))
		}
	}
}
