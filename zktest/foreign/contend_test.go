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

func TestLocksOfOthersAndOursExcludeEachOther(t *testing.T) {
	for _, other := range []struct {
		name string
		open func(*testing.T, *server, string) rival
	}{
		{"Curator's InterProcessMutex", curatorMutex},
		{"Kazoo's Lock", kazooLock},
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
				holds func()
			}{
				{"ours waits for theirs", c.oursWaits},
				{"theirs waits for ours", c.theirsWaits},
				{"no update under either is lost", c.noUpdateIsLost},
				{"ours follows theirs whose session expired", c.oursFollowsAnExpired},
			} {
				require.True(t, t.Run(claim.name, func(t *testing.T) {
					c.under(t)
					claim.holds()
				}))
			}
			c.under(t)
			c.rival.finish()
		})
	}
}

// A contest is a lock of ours and a rival on one path. The rival outlives the subtests.
type contest struct {
	t      *testing.T // the subtest's
	server *server
	path   string
	conn   *zk.Conn
	rival  rival
	ours   *lock.Mutex
}

// under says whose test it is from now on.
func (c *contest) under(t *testing.T) {
	t.Helper()
	c.t = t
	c.rival.under(t)
}

func (c *contest) oursWaits() {
	c.rival.askToTake()
	c.rival.taken()
	_, err := c.ours.TryLock(bounded(c.t))
	require.ErrorIs(c.t, err, lock.ErrLocked)

	taken := inBackground(c.t, c.ours.Lock)
	inLine(c.t, c.conn, c.path, 2)
	taken.waits("the rival holds the lock")
	c.rival.leave()
	require.NoError(c.t, taken.result().Unlock(bounded(c.t)))
}

func (c *contest) theirsWaits() {
	hold, err := c.ours.Lock(bounded(c.t))
	require.NoError(c.t, err)
	if !c.rival.refused() {
		c.t.Log("the recipe has no way to try without waiting")
	}
	inLine(c.t, c.conn, c.path, 1)

	c.rival.askToTake()
	inLine(c.t, c.conn, c.path, 2)
	c.rival.waits("we hold the lock")
	require.NoError(c.t, hold.Unlock(bounded(c.t)))
	c.rival.taken()
	c.rival.leave()
}

// The file is guarded by the lock and nothing else, so that two holders at once overwrite each other's number. We go on
// for as long as they do, whoever is quicker to begin.
func (c *contest) noUpdateIsLost() {
	const theirs = 100
	file, ctx := filepath.Join(c.t.TempDir(), "counter"), bounded(c.t)
	require.NoError(c.t, os.WriteFile(file, []byte("0"), 0o600))
	c.rival.askToCount(file, theirs)
	ours := 0
	for ; !c.rival.counted(); ours++ {
		var hold *lock.Hold
		take := func() (err error) { hold, err = c.ours.Lock(ctx); return err }
		require.NoError(c.t, addOne(take, file, func() error { return hold.Unlock(ctx) }))
	}
	content, err := os.ReadFile(file)
	require.NoError(c.t, err)
	require.Equal(c.t, strconv.Itoa(ours+theirs), string(content))
	inLine(c.t, c.conn, c.path, 0)
	c.t.Logf("counted %d times, the rival %d", ours, theirs)
}

func (c *contest) oursFollowsAnExpired() {
	if c.server.ensemble == nil {
		c.t.Skip("not run: a real server cannot be told to expire a session")
	}
	c.rival.askToTake()
	c.rival.taken()
	taken := inBackground(c.t, c.ours.Lock)
	inLine(c.t, c.conn, c.path, 2)
	taken.waits("the rival holds the lock")
	require.NoError(c.t, c.server.ensemble.Expire(c.rival.session()))
	hold := taken.result()
	c.rival.lose()
	require.NoError(c.t, hold.Check(bounded(c.t)), "the loser takes nothing of ours along")
	require.NoError(c.t, hold.Unlock(bounded(c.t)))
}
