// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

// Curator's InterProcessReadWriteLock and ours share a path. No other recipe may use it.
func TestReadersAndWritersOfCuratorAndOursShareOneQueue(t *testing.T) {
	s := serve(t)
	path, conn := s.root+"/rw", s.connect(t)
	reader, writer := curator(t, "read", s, path), curator(t, "write", s, path)
	ours, err := lock.NewRW(s.client(t), path, nil)
	require.NoError(t, err)

	// Their writer excludes ours.
	writer.startAcquire()
	writer.awaitAcquired()
	_, err = ours.TryRLock(bounded(t))
	require.ErrorIs(t, err, lock.ErrLocked)
	read := inBackground(t, ours.RLock)
	waitForContenders(t, conn, path, 2)
	reader.startAcquire()
	waitForContenders(t, conn, path, 3)
	write := inBackground(t, ours.Lock)
	waitForContenders(t, conn, path, 4)
	read.requireRunning("their writer holds the lock")
	writer.release()

	// Their reader and ours share the lock, and our writer waits for both.
	shared := read.result()
	reader.awaitAcquired()
	require.NoError(t, shared.Unlock(bounded(t)))
	write.requireRunning("their reader holds the lock")
	reader.release()

	// Our writer excludes both of theirs, and is downgraded: their writer waits, and so does their reader, which does not
	// know a node that was downgraded.
	hold := write.result()
	reader.requireBusy(t)
	writer.requireBusy(t)
	require.NoError(t, hold.Downgrade(bounded(t)))
	writer.startAcquire()
	waitForContenders(t, conn, path, 2)
	writer.RequireWaiting("our reader holds the lock")
	reader.requireBusy(t)
	require.NoError(t, hold.Unlock(bounded(t)))
	writer.awaitAcquired()

	// Their writer downgrades its lock while our reader waits, and our writer joins after that. Curator 5.4.0 gives the reader a
	// new number, so that a writer of any library that had joined before would not wait for it.
	downgrader := curator(t, "downgrade", s, path)
	downgrader.startAcquire()
	waitForContenders(t, conn, path, 2)
	read = inBackground(t, ours.RLock)
	waitForContenders(t, conn, path, 3)
	writer.release()
	downgrader.awaitAcquired()
	shared = read.result()
	write = inBackground(t, ours.Lock)
	waitForContenders(t, conn, path, 3)
	write.requireRunning("their downgraded writer and our reader hold the lock")
	require.NoError(t, shared.Unlock(bounded(t)))
	write.requireRunning("their downgraded writer holds the lock")
	downgrader.release()
	require.NoError(t, write.result().Unlock(bounded(t)))
	downgrader.Close()

	// The session of their writer expires under our waiting reader.
	if s.ensemble != nil {
		writer.startAcquire()
		writer.awaitAcquired()
		read = inBackground(t, ours.RLock)
		waitForContenders(t, conn, path, 2)
		read.requireRunning("their writer holds the lock")
		require.NoError(t, s.ensemble.Expire(t.Context(), writer.session()))
		shared = read.result()
		writer.Await("lost")
		require.NoError(t, shared.Check(bounded(t)))
		require.NoError(t, shared.Unlock(bounded(t)))
	}
	waitForContenders(t, conn, path, 0)
	reader.Close()
	writer.Close()
}
