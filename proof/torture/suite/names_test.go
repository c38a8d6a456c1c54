// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestReapedContainerIsRecreated(t *testing.T) {
	t.Parallel()
	s := onThree(t) // its servers reap empty containers within two seconds
	mu := s.Mutex(s.Connect(recipes.Options{}), "deep/down/lock")
	gone := func() bool {
		exists, _, err := s.ZK.Exists(s.Path("deep"))
		return err == nil && !exists
	}
	hold := s.Lock(mu)
	for range 2 {
		token := hold.Token()
		s.Unlock(hold)
		s.Eventually("the containers are gone", gone)
		hold = s.Lock(mu)
		require.Greater(t, hold.Token(), token)
	}
	s.Unlock(hold)
	s.Eventually("the containers are gone", gone)
	hold, err := mu.TryLock(s.Ctx)
	require.NoError(t, err)
	s.Unlock(hold)
}
