// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Kazoo's Lock makes sure of its path once, at its first acquire.
func TestKeptLockOfKazooOutlivesIdleTimeOnPersistentParent(t *testing.T) {
	s := serve(t)
	conn := s.connect(t)
	paths := []string{s.root + "/container", s.root + "/queues/persistent"}
	clients := []*recipes.Client{s.client(t), s.connectClient(t, &recipes.Options{PersistentParents: true})}
	kept := make([]rival, len(paths))
	for i, path := range paths {
		mu, err := lock.New(clients[i], path, nil)
		require.NoError(t, err)
		hold, err := mu.Lock(bounded(t)) // creates the path
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(bounded(t)))
		kept[i] = kazooLock(t, s, path)
		kept[i].startAcquire()
		kept[i].awaitAcquired()
		kept[i].release()
	}

	s.waitForContainers(t, conn, paths[0])
	require.Equal(t, "missing", kept[0].Request("acquire", "missing", "acquired"))
	kept[1].startAcquire()
	kept[1].awaitAcquired()
	kept[1].release()

	fresh := kazooLock(t, s, paths[0])
	fresh.startAcquire()
	fresh.awaitAcquired()
	fresh.release()
	for _, r := range append(kept, fresh) {
		r.Close()
	}
}

// waitForContainers waits until the servers have deleted that container. A real server looks for containers once a minute.
func (s *server) waitForContainers(t *testing.T, conn *zk.Conn, container string) {
	t.Helper()
	ctx := bounded(t)
	for {
		if s.ensemble != nil {
			s.ensemble.CheckContainers()
		}
		exists, _, err := conn.Exists(container)
		require.NoError(t, err)
		if !exists {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			require.FailNow(t, "the container is not deleted", container)
		}
	}
}
