// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

// That our lock and each of two libraries exclude each other says nothing about the two together, see
// TestCuratorTakesLockThatKazooHolds. So each set of libraries that may share a path contends as a whole.
func TestSetsOfLibrariesExcludeEachOther(t *testing.T) {
	for _, set := range []struct {
		name    string
		members []func(*testing.T, *server, string) rival
	}{
		{"Curator, go-zookeeper and ours", []func(*testing.T, *server, string) rival{curatorMutex, goZooKeeperLock}},
		{"Kazoo, go-zookeeper and ours", []func(*testing.T, *server, string) rival{kazooLock, goZooKeeperLock}},
	} {
		t.Run(set.name, func(t *testing.T) {
			s := serve(t)
			path, conn := s.root+"/lock", s.connect(t)
			file, ctx := filepath.Join(t.TempDir(), "counter"), bounded(t)
			require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))

			const theirs = 100
			rivals := make([]rival, len(set.members))
			for i, open := range set.members {
				rivals[i] = open(t, s, path)
			}
			for _, r := range rivals {
				r.startCount(file, theirs)
			}
			mu, err := lock.New(s.client(t), path, nil)
			require.NoError(t, err)
			ours := 0
			for running := len(rivals); running > 0; ours++ {
				var hold *lock.Hold
				acquire := func() (err error) { hold, err = mu.Lock(ctx); return err }
				require.NoError(t, addOne(acquire, file, func() error { return hold.Unlock(ctx) }))
				for _, r := range rivals {
					if r.counted() {
						running--
					}
				}
			}
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(ours+theirs*len(rivals)), string(content))
			waitForContenders(t, conn, path, 0)
			for _, r := range rivals {
				r.Close()
			}
		})
	}
}
