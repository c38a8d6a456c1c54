// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var zkLock = library{name: "`zk.Lock`", short: "zk", module: "github.com/go-zookeeper/zk"}

var ofZKLock = []bug{
	{
		library: &zkLock, number: "65", report: "https://github.com/go-zookeeper/zk/pull/65",
		wrong:  "Since the fix, negative sequence numbers are read; at the maximum all contenders have equal ones, and all hold the lock",
		here:   "one holder",
		theirs: zkLockAtTheStuckCounter, ours: oneHolderAtTheStuckCounter,
	},
	{
		library: &zkLock, number: "20", report: "https://github.com/samuel/go-zookeeper/issues/20",
		wrong:  "The holder is not notified of a loss; then `Lock` returns `ErrDeadlock` forever",
		here:   "`Hold.Done` before the next grant; then locks again",
		theirs: zkLockAfterALoss, ours: holderIsNotifiedAndLocksAgain,
	},
	{
		library: &zkLock, number: "229", report: "https://github.com/samuel/go-zookeeper/issues/229",
		wrong:  "A failed `Lock` leaves its node, which blocks all others",
		here:   "no node stays",
		theirs: zkLockThatFails, ours: lostRepliesLeaveNoNode,
	},
}

func (s servers) zkLock() (*zk.Lock, *zktest.Link, *zk.Conn) {
	s.Helper()
	conn, link := s.conn()
	return zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)), link, conn
}

// stuck creates the parent of the contenders with the counter at its maximum.
func (s servers) stuck() {
	s.Helper()
	require.NoError(s, s.Create(path, nil))
	require.NoError(s, s.SetCounter(path, math.MaxInt32))
}

func zkLockAtTheStuckCounter(t *testing.T) {
	bubble(t, func(s servers) {
		s.stuck()
		for range 3 {
			theirs, _, _ := s.zkLock()
			require.NoError(s, theirs.Lock(), "granted although others hold it")
		}
		require.Len(s, s.queue(), 3)
	})
}

func oneHolderAtTheStuckCounter(t *testing.T) {
	bubble(t, func(s servers) {
		s.stuck()
		var calls []*pending[*lock.Hold]
		for range 3 {
			mu, _ := s.mutex()
			calls = append(calls, begin(s.T, mu.Lock))
			soon()
		}
		for i, call := range calls {
			hold := call.result()
			for _, later := range calls[i+1:] {
				require.False(s, later.over(), "the lock is held")
			}
			require.NoError(s, hold.Unlock(s.Context()))
			soon()
		}
	})
}

func zkLockAfterALoss(t *testing.T) {
	bubble(t, func(s servers) {
		theirs, link, conn := s.zkLock()
		require.NoError(s, theirs.Lock())
		next, _, _ := s.zkLock()
		waiting := beginError(s.T, next.Lock)
		soon()
		require.False(s, waiting.over())

		link.Hold(zktest.Both)
		waiting.result()
		require.ErrorIs(s, theirs.Lock(), zk.ErrDeadlock, "it still counts as the holder")
		link.Reset()
		link.Release()
		for conn.State() != zk.StateHasSession {
			soon()
		}
		require.ErrorIs(s, theirs.Unlock(), zk.ErrNoNode)
		require.NoError(s, next.Unlock())
		require.ErrorIs(s, theirs.Lock(), zk.ErrDeadlock, "the lock is free")
	})
}

func holderIsNotifiedAndLocksAgain(t *testing.T) {
	bubble(t, func(s servers) {
		ours, link := s.mutex()
		hold, err := ours.Lock(s.Context())
		require.NoError(s, err)
		next, _ := s.mutex()
		waiting := begin(s.T, next.Lock)
		soon()
		require.False(s, waiting.over())

		link.Hold(zktest.Both)
		<-hold.Done()
		require.False(s, waiting.over(), "notified before the next grant")
		require.ErrorIs(s, hold.Err(), recipes.ErrLost)
		granted := waiting.result()
		link.Reset()
		link.Release()
		require.ErrorIs(s, hold.Unlock(s.Context()), recipes.ErrLost)
		require.NoError(s, granted.Unlock(s.Context()))
		again, err := ours.Lock(s.Context())
		require.NoError(s, err)
		require.NoError(s, again.Unlock(s.Context()))
	})
}

func zkLockThatFails(t *testing.T) {
	bubble(t, func(s servers) {
		require.NoError(s, s.Create(path, nil))
		theirs, link, conn := s.zkLock()
		link.Intercept(zktest.Rule{Op: "getChildren", Path: path, Times: 1, Lose: zktest.ToClient})
		require.ErrorIs(s, theirs.Lock(), zk.ErrConnectionClosed)
		require.Len(s, s.queue(), 1, "of a Lock that has failed")

		next, _, _ := s.zkLock()
		waiting := beginError(s.T, next.Lock)
		time.Sleep(time.Hour)
		require.False(s, waiting.over(), "no client holds the lock")
		conn.Close()
		waiting.result()
	})
}

func lostRepliesLeaveNoNode(t *testing.T) {
	for n := 1; n <= 8; n++ {
		bubble(t, func(s servers) {
			ours, link := s.mutex()
			link.LoseReply(n)
			hold, err := ours.Lock(s.Context())
			if err == nil {
				_ = hold.Unlock(s.Context()) // it may not be confirmed
			}
			next, _ := s.mutex()
			granted, err := next.Lock(s.Context())
			require.NoError(s, err)
			require.Len(s, s.queue(), 1, "reply %d: only the holder's", n)
			require.NoError(s, granted.Unlock(s.Context()))
		})
	}
}
