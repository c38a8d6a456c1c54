// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// That our lock and each of two libraries exclude each other says nothing about the two together, see
// TestCuratorTakesLockThatKazooHolds. So each set of libraries that may share a path contends as a whole.
func TestSetsOfLibrariesExcludeEachOther(t *testing.T) {
	for _, set := range []struct {
		name    string
		members []opener
		ours    func(*testing.T, *recipes.Client, string) []func(*testing.T, string)
	}{
		{"Curator, Kazoo with names of the queue, go-zookeeper and ours", []opener{curatorMutex, kazooRecipe("queuelock"), goZooKeeperLock}, ourMutex},
		{"Curator that sorts by the last digits, Kazoo, go-zookeeper and ours", []opener{curatorRecipe("digits"), kazooLock, goZooKeeperLock}, ourMutex},
		{"Kazoo with both kinds of names, go-zookeeper and ours", []opener{kazooLock, kazooRecipe("queuelock"), goZooKeeperLock}, ourMutex},
		{"our RWMutex, Kazoo's WriteLock and go-zookeeper", []opener{kazooRecipe("writelock"), goZooKeeperLock}, ourRWMutex},
		{"our RWMutex and Curator's InterProcessReadWriteLock", []opener{curatorRecipe("write"), curatorRecipe("write")}, ourRWMutex},
	} {
		t.Run(set.name, func(t *testing.T) {
			s := serve(t)
			path, conn := s.root+"/lock", s.connect(t)
			file := filepath.Join(t.TempDir(), "counter")
			require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))

			const theirs = 50
			rivals := make([]rival, len(set.members))
			for i, open := range set.members {
				rivals[i] = open(t, s, path)
			}
			for _, r := range rivals {
				r.session() // it is connected: the quickest one has not finished when the slowest begins
			}
			for _, r := range rivals {
				r.startCount(file, theirs)
			}
			rounds, add := 0, set.ours(t, s.client(t), path)
			ctx := bounded(t)
			for running := len(rivals); running > 0; rounds++ {
				require.NoError(t, ctx.Err(), "a rival has not finished")
				for _, addOne := range add {
					addOne(t, file)
				}
				for _, r := range rivals {
					if r.counted() {
						running--
					}
				}
			}
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(rounds*len(add)+theirs*len(rivals)), string(content))
			waitForContenders(t, conn, path, 0)
			for _, r := range rivals {
				r.Close()
			}
		})
	}
}

// ourMutex returns the ways to add one to the number in a file that a Mutex has.
func ourMutex(t *testing.T, client *recipes.Client, path string) []func(*testing.T, string) {
	t.Helper()
	mu, err := lock.New(client, path, nil)
	require.NoError(t, err)
	return []func(*testing.T, string){func(t *testing.T, file string) {
		t.Helper()
		ctx := t.Context()
		var hold *lock.Hold
		acquire := func() (err error) { hold, err = mu.Lock(ctx); return err }
		require.NoError(t, addOne(acquire, file, func() error { return hold.Unlock(ctx) }))
	}}
}

// ourRWMutex returns the contenders of an RWMutex: a writer, after which a reader requires that the number stays, and a writer that is
// downgraded to such a reader.
func ourRWMutex(t *testing.T, client *recipes.Client, path string) []func(*testing.T, string) {
	t.Helper()
	rw, err := lock.NewRW(client, path, nil)
	require.NoError(t, err)
	requireUnchanged := func(t *testing.T, file string) {
		t.Helper()
		first, err := os.ReadFile(file)
		require.NoError(t, err)
		time.Sleep(time.Millisecond) // a writer that does not wait for readers adds one
		second, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	}
	var hold *lock.WriteHold
	add := func(t *testing.T, file string, end func() error) {
		t.Helper()
		acquire := func() (err error) { hold, err = rw.Lock(t.Context()); return err }
		require.NoError(t, addOne(acquire, file, end))
	}
	return []func(*testing.T, string){
		func(t *testing.T, file string) {
			t.Helper()
			add(t, file, func() error { return hold.Unlock(t.Context()) })
			read, err := rw.RLock(t.Context())
			require.NoError(t, err)
			requireUnchanged(t, file)
			require.NoError(t, read.Unlock(t.Context()))
		},
		func(t *testing.T, file string) {
			t.Helper()
			add(t, file, func() error { return hold.Downgrade(t.Context()) })
			requireUnchanged(t, file)
			require.NoError(t, hold.Unlock(t.Context()))
		},
	}
}
