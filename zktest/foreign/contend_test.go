// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

func TestLocksOfOtherLibrariesAndOursExcludeEachOther(t *testing.T) {
	for _, other := range []struct {
		name string
		open opener
	}{
		{"Curator's InterProcessMutex", curatorMutex},
		{"Kazoo's Lock", kazooLock},
		{"Kazoo's Lock with names of the queue", kazooRecipe("queuelock")},
		{"go-zookeeper's Lock", goZooKeeperLock},
	} {
		t.Run(other.name, func(t *testing.T) {
			s := serve(t)
			c := &contest{server: s, path: s.root + "/lock", conn: s.connect(t)}
			c.rival = other.open(t, s, c.path)
			var err error
			c.ours, err = lock.New(s.client(t), c.path, nil)
			require.NoError(t, err)

			for _, claim := range []struct {
				name  string
				check func()
			}{
				{"ours waits for theirs", c.oursWaits},
				{"theirs waits for ours", c.theirsWaits},
				{"no update under either lock is lost", c.noUpdateIsLost},
				{"ours is granted after the session of theirs expires", c.oursFollowsExpired},
			} {
				require.True(t, t.Run(claim.name, func(t *testing.T) {
					c.useTest(t)
					claim.check()
				}))
			}
			c.useTest(t)
			c.Close()
		})
	}
}

// A contest is our lock and a rival on one path. The rival outlives the subtests.
type contest struct {
	t      *testing.T // the subtest's
	server *server
	path   string
	conn   *zk.Conn
	rival
	ours *lock.Mutex
}

// useTest sets the test that fails from now on.
func (c *contest) useTest(t *testing.T) {
	t.Helper()
	c.t = t
	c.UseTest(t)
}

func (c *contest) oursWaits() {
	c.startAcquire()
	c.awaitAcquired()
	_, err := c.ours.TryLock(bounded(c.t))
	require.ErrorIs(c.t, err, lock.ErrLocked)

	call := inBackground(c.t, c.ours.Lock)
	waitForContenders(c.t, c.conn, c.path, 2)
	call.requireRunning("the rival holds the lock")
	c.release()
	require.NoError(c.t, call.result().Unlock(bounded(c.t)))
}

func (c *contest) theirsWaits() {
	hold, err := c.ours.Lock(bounded(c.t))
	require.NoError(c.t, err)
	if !c.cannotTry {
		c.requireBusy(c.t)
	}
	waitForContenders(c.t, c.conn, c.path, 1)

	c.startAcquire()
	waitForContenders(c.t, c.conn, c.path, 2)
	c.RequireWaiting("our lock is held")
	require.NoError(c.t, hold.Unlock(bounded(c.t)))
	c.awaitAcquired()
	c.release()
}

// noUpdateIsLost counts in a file that only the lock guards, so that overlapping holders would overwrite each other's
// number. It acquires our lock for as long as the rival counts, so that the two compete regardless of which starts
// first.
func (c *contest) noUpdateIsLost() {
	const theirs = 100
	file, ctx := filepath.Join(c.t.TempDir(), "counter"), bounded(c.t)
	require.NoError(c.t, os.WriteFile(file, []byte("0"), 0o600))
	c.startCount(file, theirs)
	ours := 0
	for ; !c.counted(); ours++ {
		var hold *lock.Hold
		acquire := func() (err error) { hold, err = c.ours.Lock(ctx); return err }
		require.NoError(c.t, addOne(acquire, file, func() error { return hold.Unlock(ctx) }))
	}
	content, err := os.ReadFile(file)
	require.NoError(c.t, err)
	require.Equal(c.t, strconv.Itoa(ours+theirs), string(content))
	waitForContenders(c.t, c.conn, c.path, 0)
	c.t.Logf("counted %d times, the rival %d", ours, theirs)
}

func (c *contest) oursFollowsExpired() {
	if c.server.ensemble == nil {
		c.t.Skip("not run: a real server cannot expire a session on request")
	}
	c.startAcquire()
	c.awaitAcquired()
	call := inBackground(c.t, c.ours.Lock)
	waitForContenders(c.t, c.conn, c.path, 2)
	call.requireRunning("the rival holds the lock")
	require.NoError(c.t, c.server.ensemble.Expire(c.t.Context(), c.session()))
	hold := call.result()
	c.Await("lost")
	require.NoError(c.t, hold.Check(bounded(c.t)), "the loss of the rival's session does not affect our hold")
	require.NoError(c.t, hold.Unlock(bounded(c.t)))
}
