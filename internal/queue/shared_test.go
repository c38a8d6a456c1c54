// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/downgrade"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A claiming is a contender of a queue, which one client makes.
type claiming struct {
	servers
	queue *queue.Queue
	got   chan *recipes.Claim
}

// claiming makes a contender of /l, and waits until it is in the queue as the n-th node.
func (s servers) claiming(queue *queue.Queue, mode protocol.Mode, n int) *claiming {
	s.Helper()
	c := &claiming{s, queue, make(chan *recipes.Claim, 1)}
	go func() {
		claim, err := queue.ClaimAs(s.Context(), mode)
		if err != nil {
			s.Errorf("claim: %v", err)
		}
		c.got <- claim
	}()
	s.queued("/l", n, loadTimeout)
	synctest.Wait()
	return c
}

// waits requires that the contender has not been granted the claim.
func (c *claiming) waits() {
	c.Helper()
	synctest.Wait()
	require.Empty(c, c.got)
}

// granted returns the claim that the contender was granted.
func (c *claiming) granted() *recipes.Claim {
	c.Helper()
	synctest.Wait()
	require.Len(c, c.got, 1)
	return <-c.got
}

func (c *claiming) release(claim *recipes.Claim) {
	c.Helper()
	require.NoError(c, c.queue.Release(c.Context(), claim))
}

func TestReaderBehindWaitingWriterWaits(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		queue := s.queue(s.loaded(recipes.Options{}), "/l")
		other := s.queue(s.loaded(recipes.Options{}), "/l")
		first := s.claiming(queue, protocol.Write, 1)
		held := first.granted()
		r1, r2 := s.claiming(queue, protocol.Read, 2), s.claiming(other, protocol.Read, 3)
		writer, r3 := s.claiming(other, protocol.Write, 4), s.claiming(queue, protocol.Read, 5)
		r1.waits()
		first.release(held)
		c1, c2 := r1.granted(), r2.granted()
		require.True(s, c1.Shared())
		require.False(s, held.Shared())
		require.NoError(s, c1.Check(s.Context()))
		writer.waits()
		r3.waits()
		r1.release(c1)
		writer.waits()
		r2.release(c2)
		w := writer.granted()
		r3.waits()
		writer.release(w)
		c3 := r3.granted()
		require.Greater(s, c3.Token(), w.Token())
		require.Greater(s, w.Token(), c2.Token())
		r3.release(c3)
	})
}

// Its nearest writer has given up, and the one before still holds.
func TestReaderWhoseNearestWriterGivesUpWaitsForTheOthers(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		queue := s.queue(s.loaded(recipes.Options{}), "/l")
		holder := s.claiming(queue, protocol.Write, 1)
		held := holder.granted()
		crowd := s.crowd()
		crowd.join(queue, 7)
		s.queued("/l", 8, loadTimeout)
		reader := s.claiming(s.queue(s.loaded(recipes.Options{}), "/l"), protocol.Read, 9)
		crowd.disperse()
		reader.waits()
		holder.release(held)
		reader.release(reader.granted())
	})
}

func TestLocksAndReadersOfOnePathExcludeEachOther(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		queue := s.queue(s.loaded(recipes.Options{}), "/l")
		reader := s.claiming(queue, protocol.Read, 1)
		held := reader.granted()
		_, err := queue.Try(s.Context())
		var busy *recipes.BusyError
		require.ErrorAs(s, err, &busy)
		require.True(s, busy.Front.Shared)
		second, err := queue.TryAs(s.Context(), protocol.Read)
		require.NoError(s, err)
		mutex := s.claiming(queue, protocol.Exclusive, 3)
		_, err = queue.TryAs(s.Context(), protocol.Read)
		require.ErrorAs(s, err, &busy)
		require.False(s, busy.Front.Shared, "the lock that waits")
		late := s.claiming(queue, protocol.Read, 4)
		reader.release(held)
		mutex.waits()
		reader.release(second)
		claim := mutex.granted()
		late.waits()
		mutex.release(claim)
		late.release(late.granted())
	})
}

func TestDowngradeLetsReadersInAndNoWriter(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		queue, other := s.queue(s.loaded(recipes.Options{}), "/l"), s.queue(s.loaded(recipes.Options{}), "/l")
		holder := s.claiming(queue, protocol.Write, 1)
		held := holder.granted()
		reader, writer := s.claiming(other, protocol.Read, 2), s.claiming(other, protocol.Write, 3)
		late := s.claiming(other, protocol.Read, 4)
		require.NoError(s, downgrade.Claim(s.Context(), held))
		require.NoError(s, downgrade.Claim(s.Context(), held), "again")
		require.True(s, held.Shared())
		shared := reader.granted()
		writer.waits()
		late.waits()
		time.Sleep(2 * loadTimeout)
		require.NoError(s, held.Err(), "heartbeats know of the write")
		require.NoError(s, held.Check(s.Context()))
		_, err := held.Commit(s.Context())
		require.NoError(s, err)
		require.ErrorContains(s, downgrade.Claim(s.Context(), shared), "mode Write")
		holder.release(held)
		writer.waits()
		reader.release(shared)
		writer.release(writer.granted())
		late.release(late.granted())
		again, err := queue.TryAs(s.Context(), protocol.Write)
		require.NoError(s, err)
		require.NoError(s, downgrade.Claim(s.Context(), again))
		second, err := other.TryAs(s.Context(), protocol.Read)
		require.NoError(s, err, "the front was downgraded")
		reader.release(second)
		holder.release(again)
	})
}

func TestDowngradeThatIsNotAnsweredIsFoundOut(t *testing.T) {
	for _, lost := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
		crowded(t, zktest.Options{}, func(s servers) {
			queue, other := s.queue(s.loaded(recipes.Options{}), "/l"), s.queue(s.loaded(recipes.Options{}), "/l")
			held := s.claiming(queue, protocol.Write, 1).granted()
			reader := s.claiming(other, protocol.Read, 2)
			writes := s.Intercept(zktest.Rule{Op: "setData", Below: "/l", Times: 1, Lose: lost})
			require.NoError(s, downgrade.Claim(s.Context(), held))
			require.Equal(s, 1, writes.Fired())
			shared := reader.granted()
			time.Sleep(2 * loadTimeout)
			require.NoError(s, held.Err())
			require.NoError(s, queue.Release(s.Context(), held))
			reader.release(shared)
		})
	}
}

// A check that is on its way when the downgrade is carried out names the version before it.
func TestCommitsBesideDowngradeAreCarriedOut(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		queue := s.queue(s.loaded(recipes.Options{}), "/l")
		held := s.claiming(queue, protocol.Write, 1).granted()
		commits := s.Intercept(zktest.Rule{Op: "multi", Times: 3, Hold: zktest.ToServer})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := held.Commit(s.Context()); err != nil {
					s.Errorf("commit: %v", err)
				}
			})
		}
		all.Go(func() {
			if err := downgrade.Claim(s.Context(), held); err != nil {
				s.Errorf("downgrade: %v", err)
			}
		})
		synctest.Wait()
		commits.Remove()
		all.Wait()
		require.NoError(s, held.Err())
		require.NoError(s, queue.Release(s.Context(), held))
	})
}

func TestRevocationAfterDowngradeEndsTheClaim(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		queue := s.queue(s.loaded(recipes.Options{}), "/l")
		held := s.claiming(queue, protocol.Write, 1).granted()
		requests := s.requests(s.loaded(recipes.Options{}))
		require.NoError(s, downgrade.Claim(s.Context(), held))
		first, err := queue.First(s.Context())
		require.NoError(s, err)
		require.True(s, first.Shared)
		read, err := requests.Read(s.Context(), first.Name)
		require.NoError(s, err)
		require.True(s, read.Revocable())
		require.NoError(s, requests.Revoke(s.Context(), first.Name, recipes.Revocation{By: "admin", Reason: "maintenance"}))
		<-held.Done()
		require.ErrorIs(s, held.Err(), recipes.ErrRevoked)
		require.ErrorContains(s, held.Err(), "maintenance")
		require.ErrorIs(s, queue.Release(s.Context(), held), recipes.ErrLost)
	})
}

func TestDowngradeOfRevokedClaimReturnsTheLoss(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		queue := s.queue(s.loaded(recipes.Options{}), "/l")
		held := s.claiming(queue, protocol.Write, 1).granted()
		first, err := queue.First(s.Context())
		require.NoError(s, err)
		requests := s.requests(s.loaded(recipes.Options{}))
		require.NoError(s, requests.Revoke(s.Context(), first.Name, recipes.Revocation{By: "admin"}))
		require.ErrorIs(s, downgrade.Claim(s.Context(), held), recipes.ErrRevoked)
		require.False(s, held.Shared())
		require.ErrorIs(s, downgrade.Claim(s.Context(), held), recipes.ErrLost)
	})
}

func TestReadersThatWakeTogetherListNothing(t *testing.T) {
	for name, size := range map[string]struct{ clients, readers int }{"one client": {1, 1000}, "many clients": {40, 400}} {
		t.Run(name, func(t *testing.T) {
			clients, readers := size.clients, size.readers
			crowded(t, zktest.Options{}, func(s servers) {
				writers := s.queue(s.loaded(recipes.Options{}), "/l")
				first := s.claiming(writers, protocol.Write, 1)
				held := first.granted()
				second := s.claiming(writers, protocol.Write, 2)
				var granted, released sync.WaitGroup
				release := make(chan struct{})
				for i := range clients {
					queue := s.queue(s.loaded(recipes.Options{}), "/l")
					for range readers / clients {
						granted.Add(1)
						released.Go(func() {
							claim, err := queue.ClaimAs(s.Context(), protocol.Read)
							granted.Done()
							<-release
							if err == nil {
								err = queue.Release(s.Context(), claim)
							}
							if err != nil {
								s.Errorf("reader: %v", err)
							}
						})
					}
					s.queued("/l", 2+(i+1)*readers/clients, loadTimeout)
				}
				first.release(held)
				next := second.granted()
				requests := map[string]*zktest.Interceptor{}
				for _, op := range []string{"getChildren", "getChildren2", "getData", "multi", "create"} {
					requests[op] = s.Intercept(zktest.Rule{Op: op})
				}
				began := time.Now()
				second.release(next)
				granted.Wait()
				for op, i := range requests {
					s.Logf("%s: %d", op, i.Fired())
				}
				s.Logf("%d readers of %d clients granted within %v", readers, clients, time.Since(began))
				require.Zero(s, requests["getChildren"].Fired()+requests["getChildren2"].Fired())
				require.LessOrEqual(s, requests["getData"].Fired(), 2*readers)
				close(release)
				released.Wait()
			})
		})
	}
}
