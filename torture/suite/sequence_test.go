// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The counter behind the numbers in the names does not wrap: it sticks at
// 2147483647, and from there on says nothing about who came first.
func TestStuckSequenceCounterStillExcludesAndStillServes(t *testing.T) {
	s := onFresh(t, docker.Options{Servers: 3, Counters: map[string]int32{
		"/preset/late":  1<<31 - 1<<20 - 30, // the numbers are given up from 2^31 - 2^20 on
		"/preset/stuck": 1<<31 - 1 - 30,
	}})
	s.root = "/preset"
	for _, name := range []string{"late", "stuck"} {
		// The first of them cross the border with contenders on both sides of it.
		s.contest(name, 3, 4, 10)
		s.queue(name)

		client := s.connect(recipes.Options{})
		hold := s.lock(s.mutex(client, name))
		_, err := s.mutex(client, name).TryLock(s.ctx)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, hold.Token(), held.Holder.Token)
		s.unlock(hold)
	}
}
