// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/candidacy"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestContenderThatYieldsIsGrantedAfterThoseBehindIt(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		queue := s.queue(client, "/l")
		holder, err := queue.Claim(s.Context())
		require.NoError(s, err)

		var seen []candidacy.Rank
		steps := make(chan *recipes.Claim, 1)
		go func() {
			defer close(steps)
			if claim, err := candidacy.Claim(s.Context(), queue, candidacy.Options{
				Yields: func(_ context.Context, _ *candidacy.Position, behind []candidacy.Rank) (bool, error) {
					seen = behind
					return true, nil
				},
			}); err == nil {
				steps <- claim
			}
		}()
		synctest.Wait()
		prefers := make(chan *recipes.Claim, 1)
		go func() {
			defer close(prefers)
			if claim, err := candidacy.Claim(s.Context(), queue, candidacy.Options{Priority: 7}); err == nil {
				prefers <- claim
			}
		}()
		synctest.Wait()
		require.NoError(s, queue.Release(s.Context(), holder))
		first := <-prefers
		require.Equal(s, 7, seen[0].Priority, "the name shows it")
		require.Contains(s, first.Path(), seen[0].Name)
		contenders, err := queue.Contenders(s.Context())
		require.NoError(s, err)
		require.Equal(s, 7, contenders[0].Priority)
		require.NoError(s, queue.Release(s.Context(), first))
		second := <-steps
		require.Greater(s, second.Token(), first.Token())
		require.NoError(s, queue.Release(s.Context(), second))
	})
}

func TestErrorOfYieldsEndsTheClaimAndLeavesNoNode(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		queue := s.queue(client, "/l")
		holder, err := queue.Claim(s.Context())
		require.NoError(s, err)
		why := errors.New("undecided")
		failed := make(chan error, 1)
		go func() {
			_, err := candidacy.Claim(s.Context(), queue, candidacy.Options{
				Yields: func(context.Context, *candidacy.Position, []candidacy.Rank) (bool, error) { return false, why },
			})
			failed <- err
		}()
		synctest.Wait()
		other := make(chan *recipes.Claim, 1)
		go func() {
			defer close(other)
			if claim, err := queue.Claim(s.Context()); err == nil {
				other <- claim
			}
		}()
		synctest.Wait()
		require.NoError(s, queue.Release(s.Context(), holder))
		require.ErrorIs(s, <-failed, why)
		require.NoError(s, queue.Release(s.Context(), <-other))
		require.Zero(s, client.OutstandingNodes())
	})
}

// The next contender is granted the claim by then. An event shows the deletion. Nothing does while no server is connected, or while
// the server has not got the watches of an earlier connection.
func TestContenderWhoseNodeIsDeletedWhileItDecidesIsNotGranted(t *testing.T) {
	const connected, disconnected, reconnected = "connected", "disconnected", "reconnected"
	for _, now := range []string{connected, disconnected, reconnected} {
		withServers(t, func(s servers) {
			client, link := s.connect()
			queue := s.queue(client, "/l")
			holder, err := queue.Claim(s.Context())
			require.NoError(s, err)
			var decided []string
			deletes := func(_ context.Context, p *candidacy.Position, _ []candidacy.Rank) (bool, error) {
				if decided = append(decided, p.Name()); len(decided) > 1 {
					return false, nil
				}
				err := s.Delete("/l/" + p.Name())
				if now == disconnected {
					link.Refuse(true)
					link.Reset()
					time.AfterFunc(time.Second, func() { link.Refuse(false) })
				}
				time.Sleep(10 * time.Millisecond) // for the event, and too short for a heartbeat
				return false, err
			}
			reconnects := func(ctx context.Context, _ *candidacy.Position) {
				if <-ctx.Done(); now == reconnected && len(decided) == 0 {
					watches := link.Intercept(zktest.Rule{Op: "setWatches", Hold: zktest.ToServer})
					time.AfterFunc(time.Second, watches.Release)
					link.Reset()
					time.Sleep(100 * time.Millisecond)
				}
			}
			claim := func(c candidacy.Options) <-chan *recipes.Claim {
				claims := make(chan *recipes.Claim, 1)
				go func() {
					defer close(claims)
					if claim, err := candidacy.Claim(s.Context(), queue, c); err == nil {
						claims <- claim
					}
				}()
				synctest.Wait()
				return claims
			}
			decides, next := claim(candidacy.Options{Waits: reconnects, Yields: deletes}), claim(candidacy.Options{})
			require.NoError(s, queue.Release(s.Context(), holder))
			first := <-next
			require.NotNil(s, first, now)
			synctest.Wait()
			require.Empty(s, decides, "%s: it is in the queue again, behind the holder", now)
			require.NoError(s, queue.Release(s.Context(), first))
			second := <-decides
			require.NotNil(s, second)
			require.Greater(s, second.Token(), first.Token())
			require.NotContains(s, second.Path(), decided[0])
			require.NoError(s, queue.Release(s.Context(), second))
		})
	}
}

// An operator has deleted the node of the contender that waits.
func TestPositionWritesOnlyWhileItsNodeExists(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		queue, node := s.queue(client, "/l"), s.node(client, "/l-sign")
		holder, err := queue.Claim(s.Context())
		require.NoError(s, err)
		positions := make(chan *candidacy.Position, 10)
		ctx, cancel := context.WithCancel(s.Context())
		done := make(chan error, 1)
		go func() {
			_, err := candidacy.Claim(ctx, queue, candidacy.Options{Waits: func(_ context.Context, p *candidacy.Position) { positions <- p }})
			done <- err
		}()
		p := <-positions
		require.NoError(s, p.Write(s.Context(), node, []byte("created")))
		require.Equal(s, "created", s.data("/l-sign"))
		require.NoError(s, p.Write(s.Context(), node, []byte("written")))
		require.Equal(s, "written", s.data("/l-sign"))

		other, _ := s.connect()
		require.ErrorContains(s, p.Write(s.Context(), s.node(other, "/l-sign"), nil), "belongs to another client")
		require.NoError(s, s.Delete("/l/"+p.Name()))
		require.ErrorIs(s, p.Write(s.Context(), node, []byte("stale")), recipes.ErrDeleted)
		require.Equal(s, "written", s.data("/l-sign"))
		cancel()
		require.ErrorIs(s, <-done, context.Canceled)
		require.NoError(s, queue.Release(s.Context(), holder))
	})
}

func TestPriorityOutOfRangeIsRejectedAndNamed(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		queue := s.queue(client, "/l")
		for priority, want := range map[int]string{-1: "priority -1", protocol.MaxPriority + 1: "priority 1001"} {
			_, err := candidacy.Claim(s.Context(), queue, candidacy.Options{Priority: priority})
			require.EqualError(s, err, "claim /l: "+want+": must be 0 to 1000")
		}
	})
}
