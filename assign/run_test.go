// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
)

func TestPartitionsAreSharedAmongMembersThatJoinAndLeave(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.start("a", assign.Options{Partitions: partitions(12)})
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 12}, s.counts())
		b, c := s.start("b", assign.Options{}), s.start("c", assign.Options{Weight: 2})
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 3, "b": 3, "c": 6}, s.counts())
		require.Equal(s, of(s.now(), "b"), names(b.Owned()))
		owner, err := a.Owner(s.Context(), b.Owned()[0].Partition())
		require.NoError(s, err)
		require.Equal(s, "b", owner.Owner)
		require.Equal(s, b.Owned()[0].Token(), owner.Token)
		kept := of(s.now(), "c")
		a.mustStop() // the leader
		time.Sleep(settled)
		require.Equal(s, map[string]int{"b": 4, "c": 8}, s.counts())
		require.Subset(s, of(s.now(), "c"), kept)
		require.NoError(s, b.SetPartitions(s.Context(), []string{"z", "y", "p00000"}))
		time.Sleep(settled)
		require.Equal(s, []string{"p00000", "y", "z"}, slices.Sorted(maps.Keys(s.now())))
		stopAll(b, c)
		_, err = a.Owner(s.Context(), "y")
		require.ErrorIs(s, err, assign.ErrNoOwner)
		require.ErrorContains(s, err, `owner: read /assign/owned/y: no owner of partition "y"`)
		require.Equal(s, "[][]", b.logged.String()+c.logged.String(), "no failures")
	})
}

func TestPartitionMovesAfterItsWorkReturned(t *testing.T) {
	bubble(t, func(s servers) {
		const stopping = 7 * time.Second
		a := s.connect("a", assign.Options{Partitions: partitions(2)})
		returned := make(chan time.Time, 2)
		a.run(func(ctx context.Context, o *assign.Ownership) error {
			<-ctx.Done()
			require.ErrorIs(s, context.Cause(ctx), assign.ErrMoved)
			time.Sleep(stopping)
			require.NoError(s, o.Check(s.Context()), "the partition is owned until the work has returned")
			returned <- time.Now()
			return context.Cause(ctx)
		})
		time.Sleep(settled)
		b := s.connect("b", assign.Options{})
		owned := make(chan time.Time, 2)
		b.run(func(ctx context.Context, o *assign.Ownership) error {
			owned <- time.Now()
			return untilDone(ctx, o)
		})
		at := <-returned
		require.WithinRange(s, <-owned, at, at.Add(50*time.Millisecond))
		require.Len(s, b.Owned(), 1)
		b.mustStop()
		time.Sleep(settled)
		require.NoError(s, b.SetPartitions(s.Context(), nil))
		time.Sleep(settled + stopping)
		require.Empty(s, s.now())
		a.mustStop()
	})
}
