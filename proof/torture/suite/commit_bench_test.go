// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// BenchmarkCommit compares a write under a claim, and in an epoch, with the same write without a check. Each is one request,
// which includes the checks.
func BenchmarkCommit(b *testing.B) {
	type commit func(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	for _, write := range []struct {
		name  string
		ready func(s *env) (commit commit, release func(context.Context) error)
	}{
		{"claim", func(s *env) (commit, func(context.Context) error) {
			hold := s.Lock(s.Mutex(s.atServer(0), "lock"))
			return hold.Commit, hold.Unlock
		}},
		{"epoch", func(s *env) (commit, func(context.Context) error) {
			term, epoch := s.leadsEpoch(s.atServer(0), "a")
			return epoch.Commit, term.Resign
		}},
	} {
		b.Run(write.name, func(b *testing.B) {
			onBoth(b, func(b *testing.B, s *env) {
				commit, release := write.ready(s)
				conn := s.bareAt(0)
				guarded, bare := s.parent("guarded"), s.parent("bare")
				data := []byte("some data of a leader")
				ratio(b,
					func() int {
						return together(b, 1, 20, func(int) error {
							_, err := commit(s.Ctx, &zk.SetDataRequest{Path: guarded, Data: data, Version: -1})
							return err
						})
					},
					func() int {
						return together(b, 1, 20, func(int) error {
							_, err := conn.Set(bare, data, -1)
							return err
						})
					})
				require.NoError(b, release(s.Ctx))
			})
		})
	}
}
