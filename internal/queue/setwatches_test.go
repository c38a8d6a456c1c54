// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/view"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A server that is overloaded refuses a request (ThrottledOp, since ZooKeeper 3.6): also the packet with which the client sets
// its watches again on a new connection. The client takes no notice.
func TestRefusedSetWatchesWakesTheWaiters(t *testing.T) {
	for name, own := range map[string]bool{"of a lock": true, "of a lock that another library holds": false} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newOccupied(t)
				release := func() { s.delete(another) }
				if own {
					s.delete(another)
					holder := s.connect(withDial(s.options(), s.Dial))
					queue := newQueue(t, holder, nil)
					claim, err := queue.Claim(t.Context())
					require.NoError(t, err)
					release = func() { require.NoError(t, queue.Release(t.Context(), claim)) }
				}
				queue := newQueue(t, s.connect(s.options()), nil)
				granted := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 100*testTimeout)
					defer cancel()
					_, err := queue.Claim(ctx)
					granted <- err
				}()
				time.Sleep(testTimeout)
				refused := s.link.Intercept(zktest.Rule{Op: "setWatches", Fail: zktest.ErrThrottled, Times: 1})
				s.link.Reset()
				time.Sleep(testTimeout)
				require.Equal(t, 1, refused.Fired())

				began := time.Now()
				release()
				require.NoError(t, <-granted)
				require.Less(t, time.Since(began), testTimeout/24)
			})
		})
	}
}

func TestRefusedSetWatchesWakesObservers(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/n", "first")
		s.create("/n/child", "")
		client := s.connect(s.options())
		node, err := node.New(client, "/n")
		require.NoError(t, err)
		data, err := node.Watch(t.Context())
		require.NoError(t, err)
		view, err := view.New(t.Context(), node)
		require.NoError(t, err)
		defer view.Close()
		children, err := view.Children(t.Context())
		require.NoError(t, err)

		refused := s.link.Intercept(zktest.Rule{Op: "setWatches", Fail: zktest.ErrThrottled, Times: 1})
		s.link.Reset()
		time.Sleep(testTimeout)
		require.Equal(t, 1, refused.Fired())
		require.True(t, closed(data.Changed))
		require.True(t, closed(children.Changed))
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		require.NoError(t, view.Wait(ctx))
	})
}

// More holds than one heartbeat checks are watched instead. A server that refuses to set those watches again has none.
func TestDeletionOfOneOfManyHoldsIsNotifiedAfterRefusedSetWatches(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const holds = 200
		s := newEnsemble(t)
		client := s.connect(s.options())
		claims := make([]*recipes.Claim, holds)
		for i := range claims {
			queue, err := New(client, fmt.Sprintf("/many/%d", i), nil)
			require.NoError(t, err)
			claims[i], err = queue.Claim(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(testTimeout)
		refused := s.link.Intercept(zktest.Rule{Op: "setWatches", Fail: zktest.ErrThrottled, Times: 1})
		s.link.Reset()
		time.Sleep(testTimeout)
		require.Equal(t, 1, refused.Fired())

		for _, claim := range claims {
			began := time.Now()
			s.delete(claim.Path())
			<-claim.Done()
			require.Less(t, time.Since(began), testTimeout/24)
		}
	})
}

// The client's watches need three packets, and the connection ends before the second. Then all nodes have been written.
func TestConnectionThatEndsBetweenPacketsOfWatchesLosesNoEvent(t *testing.T) {
	for _, lose := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
		t.Run(lose.String(), func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				const nodes = 60
				s := newEnsemble(t)
				client := s.connect(s.options())
				var events []<-chan zk.Event
				path := func(i int) string { return fmt.Sprintf("/%s-%d", strings.Repeat("x", 5000), i) }
				for i := range nodes {
					s.create(path(i), "")
					_, _, event, err := client.Conn().GetW(path(i))
					require.NoError(t, err)
					events = append(events, event)
				}
				lost := s.link.Intercept(zktest.Rule{Op: "setWatches", Skip: 1, Times: 1, Lose: lose})
				s.unreachable.Store(true)
				s.link.Reset()
				for i := range nodes {
					s.set(path(i), "changed")
				}
				s.unreachable.Store(false)
				time.Sleep(testTimeout / 2)
				require.Equal(t, 1, lost.Fired())
				missed := 0
				for _, event := range events {
					select {
					case ev := <-event:
						require.Equal(t, zk.EventNodeDataChanged, ev.Type)
					default:
						missed++
					}
				}
				require.Zero(t, missed)
			})
		})
	}
}

// An operator deletes the waiter's node between the listing that shows it at the front and the grant. Another hold keeps the session
// proved, so that the grant waits for no heartbeat.
func TestNodeThatIsDeletedAfterRefusedSetWatchesIsNotGranted(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		other, err := New(client, "/other", nil)
		require.NoError(t, err)
		_, err = other.Claim(t.Context())
		require.NoError(t, err)
		queue := newQueue(t, client, nil)
		result := claiming(t.Context(), queue)
		time.Sleep(testTimeout)
		own := slices.Max(slices.DeleteFunc(s.queue(), func(path string) bool { return path == another }))
		deleted := s.link.Intercept(zktest.Rule{Op: "getData", Path: own, Times: 1, Before: func(zktest.Request) { s.delete(own) }})
		s.link.Intercept(zktest.Rule{Op: "setWatches", Fail: zktest.ErrThrottled, Times: 1, Before: func(zktest.Request) { s.delete(another) }})
		s.link.Reset()
		g := <-result
		require.Equal(t, 1, deleted.Fired())
		require.NoError(t, g.err)
		require.NotEqual(t, own, g.claim.Path(), "it has joined again")
	})
}
