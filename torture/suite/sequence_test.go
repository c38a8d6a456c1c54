// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The sequence counter does not wrap. It stays at 2147483647, so the numbers in names no longer give the order of creation.
func TestStuckSequenceCounterStillExcludesAndStillServes(t *testing.T) {
	s := onFresh(t, docker.Options{Servers: 3, Counters: map[string]int32{
		"/planted/late":  1<<31 - 1<<20 - 30, // from 2^31 - 2^20 on, the recipes do not rely on the numbers
		"/planted/stuck": 1<<31 - 1 - 30,
	}})
	s.root = "/planted"
	for _, name := range []string{"late", "stuck"} {
		// The first joins cross the limit, so that the queue has contenders on both sides of it.
		s.contend(name, 3, 4, 10)
		s.requireServedInOrder(name)

		client := s.connect(recipes.Options{})
		hold := s.lock(s.mutex(client, name))
		_, err := s.mutex(client, name).TryLock(s.ctx)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, hold.Token(), held.Holder.Token)
		s.unlock(hold)
	}
}
