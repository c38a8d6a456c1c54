// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

// Curator compares the numbers of its own names with the whole of Kazoo's, so that it stands in front of nearly all of
// them. That each excludes ours says nothing about the two together: a contender of ours in the queue hides it only
// while it is between them.
func TestCuratorTakesLockThatKazooHolds(t *testing.T) {
	s := serve(t)
	path, conn := s.root+"/lock", s.connect(t)
	kazoo, curator := kazooLock(t, s, path), curatorMutex(t, s, path)
	kazoo.askToTake()
	kazoo.taken()
	curator.askToTake()
	curator.taken() // two holders
	curator.leave()

	mu, err := lock.New(s.client(t), path, nil)
	require.NoError(t, err)
	ours := inBackground(t, mu.Lock)
	inLine(t, conn, path, 2)
	ours.waits("Kazoo holds the lock")
	curator.askToTake()
	inLine(t, conn, path, 3)
	curator.waits("Lockkeeper is ahead of Curator")
	kazoo.leave()
	hold := ours.result()
	require.NoError(t, hold.Unlock(bounded(t)))
	curator.taken()

	kazoo.askToTake()
	inLine(t, conn, path, 2)
	kazoo.waits("Kazoo with the pattern waits for Curator")
	curator.leave()
	kazoo.taken()
	kazoo.leave()
	kazoo.finish()
	curator.finish()
}
