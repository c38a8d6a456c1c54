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
		open func(testing.TB, *server, string) rival
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
				holds func(*testing.T)
			}{
				{"ours waits for theirs", c.oursWaits},
				{"theirs waits for ours", c.theirsWaits},
				{"no update under either is lost", c.noUpdateIsLost},
				{"ours follows theirs whose session expired", c.oursFollowsAnExpired},
			} {
				require.True(t, t.Run(claim.name, func(t *testing.T) {
					c.rival.under(t)
					claim.holds(t)
				}))
			}
			c.rival.under(t)
			c.rival.finish()
		})
	}
}

// A contest is a lock of ours and a rival on one path. The rival outlives the subtests.
type contest struct {
	server *server
	path   string
	conn   *zk.Conn
	rival  rival
	ours   *lock.Mutex
}

func (c *contest) oursWaits(t *testing.T) {
	c.rival.askToTake()
	c.rival.taken()
	_, err := c.ours.TryLock(bounded(t))
	require.ErrorIs(t, err, lock.ErrLocked)

	taken := inBackground(t, c.ours.Lock)
	inLine(t, c.conn, c.path, 2)
	taken.waits("the rival holds the lock")
	c.rival.leave()
	require.NoError(t, taken.result().Unlock(bounded(t)))
}

func (c *contest) theirsWaits(t *testing.T) {
	hold, err := c.ours.Lock(bounded(t))
	require.NoError(t, err)
	if !c.rival.refused() {
		t.Log("the recipe has no way to try without waiting")
	}
	inLine(t, c.conn, c.path, 1)

	c.rival.askToTake()
	inLine(t, c.conn, c.path, 2)
	c.rival.waits("we hold the lock")
	require.NoError(t, hold.Unlock(bounded(t)))
	c.rival.taken()
	c.rival.leave()
}

// The file is guarded by the lock and nothing else, so that two holders at once overwrite each other's number.
func (c *contest) noUpdateIsLost(t *testing.T) {
	const times = 150
	file := filepath.Join(t.TempDir(), "counter")
	require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
	c.rival.askToCount(file, times)
	for range times {
		var hold *lock.Hold
		take := func() (err error) { hold, err = c.ours.Lock(bounded(t)); return err }
		require.NoError(t, addOne(take, file, func() error { return hold.Unlock(bounded(t)) }))
	}
	c.rival.counted()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(2*times), string(content))
	inLine(t, c.conn, c.path, 0)
}

func (c *contest) oursFollowsAnExpired(t *testing.T) {
	if c.server.ensemble == nil {
		t.Skip("not run: a real server cannot be told to expire a session")
	}
	c.rival.askToTake()
	c.rival.taken()
	taken := inBackground(t, c.ours.Lock)
	inLine(t, c.conn, c.path, 2)
	taken.waits("the rival holds the lock")
	require.NoError(t, c.server.ensemble.Expire(c.rival.session()))
	hold := taken.result()
	c.rival.lose()
	require.NoError(t, hold.Check(bounded(t)), "the loser takes nothing of ours along")
	require.NoError(t, hold.Unlock(bounded(t)))
}
