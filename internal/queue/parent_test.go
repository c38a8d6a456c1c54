// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestPersistentParentsOutliveTheirLastChild(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		faketime.Test(t, func(t *testing.T) {
			s := startEnsemble(t, zktest.Options{InMemory: true})
			opts := s.options()
			opts.Namespace, opts.PersistentParents = "/team", persistent
			queue, err := New(s.connect(opts), "/locks/ledger", nil)
			require.NoError(t, err)
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.NoError(t, queue.Release(t.Context(), claim))
			for range 3 { // a container whose last child is a container goes with the next check
				s.CheckContainers()
			}
			for _, path := range []string{"/team", "/team/locks", "/team/locks/ledger"} {
				_, _, err := s.Get(path)
				require.Equal(t, persistent, err == nil, path)
			}
		})
	}
}
