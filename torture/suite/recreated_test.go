// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An operator deletes the parent with everything below it, and another client locks there. A client that has not heard
// of it joins with the tag of the parent's former life, and gets the number that a hold had there, which has not heard
// of it either. Until the joining client has its answer, its node stands where that of the hold was.
func TestLostHoldCommitsNothingWhileAStaleJoinIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, joiner := range []string{"its own client", "another client"} {
		t.Run(joiner, func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			opts := recipes.Options{SessionTimeout: 20 * time.Second} // it hears of nothing by itself for 3 s
			proxy := s.proxy(s.ensemble.Servers()[0])
			joining := s.connect(opts, proxy.Addr())
			own := joining
			if joiner == "another client" {
				own = s.connect(opts)
			}
			successor := s.connect(opts)
			for shown, i := 0, 0; shown < 3; i++ {
				name := fmt.Sprint("lock", i)
				mu := s.mutex(joining, name)
				s.unlock(s.lock(mu))
				ofHold := mu
				if own != joining {
					ofHold = s.mutex(own, name)
				}
				lost := s.lock(ofHold) // number 1
				require.NoError(t, s.zk.Delete(lost.Path(), -1))
				require.NoError(t, s.zk.Delete(s.path(name), -1))
				holder := s.lock(s.mutex(successor, name)) // number 0

				passed := make(chan struct{})
				var once sync.Once
				proxy.Delay(docker.ToClient, time.Second/2)
				proxy.LoseReply(func(frame []byte) bool {
					if isJoin(frame) {
						once.Do(func() { close(passed) })
					}
					return false
				})
				waiting := s.locking(s.ctx, mu)
				await(s, passed)
				if own != joining {
					s.waiting(name, 2)
				}
				if lost.Err() == nil {
					shown++ // otherwise a heartbeat was quicker
				}
				_, err := lost.Commit(s.ctx, &zk.SetDataRequest{Path: s.root, Data: []byte("stale"), Version: -1})
				require.ErrorIs(t, err, recipes.ErrLost)
				require.ErrorIs(t, lost.Check(s.ctx), recipes.ErrLost)
				data, _, err := s.zk.Get(s.root)
				require.NoError(t, err)
				require.Empty(t, data)
				require.NoError(t, holder.Check(s.ctx))
				proxy.Heal()
				s.unlock(holder)
				s.unlock(waiting.granted())
			}
		})
	}
}
