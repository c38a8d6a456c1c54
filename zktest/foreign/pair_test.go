// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

// Curator compares the numbers in its own node names with Kazoo's whole names, so that it sorts before nearly all of
// them. That our lock and each of the two exclude each other says nothing about the two together: a contender of ours
// hides the defect only while it is between them in the queue.
func TestCuratorTakesLockThatKazooHolds(t *testing.T) {
	s := serve(t)
	path, conn := s.root+"/lock", s.connect(t)
	kazoo, curator := kazooLock(t, s, path), curatorMutex(t, s, path)
	kazoo.startAcquire()
	kazoo.awaitAcquired()
	curator.startAcquire()
	curator.awaitAcquired() // two holders
	curator.release()

	mu, err := lock.New(s.client(t), path, nil)
	require.NoError(t, err)
	ours := inBackground(t, mu.Lock)
	waitForContenders(t, conn, path, 2)
	ours.requireRunning("Kazoo holds the lock")
	curator.startAcquire()
	waitForContenders(t, conn, path, 3)
	curator.RequireWaiting("Lockkeeper precedes Curator")
	kazoo.release()
	hold := ours.result()
	require.NoError(t, hold.Unlock(bounded(t)))
	curator.awaitAcquired()

	kazoo.startAcquire()
	waitForContenders(t, conn, path, 2)
	kazoo.RequireWaiting("Kazoo, with the extra pattern, waits for Curator")
	curator.release()
	kazoo.awaitAcquired()
	kazoo.release()
	kazoo.Close()
	curator.Close()
}
