// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var kazoo = library{name: "Kazoo", short: "kazoo", version: "2.8.0", lacks: "Kazoo"}

// fixed649 is the first version of Kazoo in which a reader does not wait for a later writer.
const fixed649 = "2.9.0"

var ofKazoo = []bug{
	{
		library: &kazoo, number: "730", report: "https://github.com/python-zk/kazoo/issues/730",
		wrong:  "Once sequence numbers run out, a newcomer may share the lock",
		here:   "one holder",
		theirs: kazooAtTheStuckCounter, ours: oneHolderAtTheStuckCounter,
	},
	{
		library: &kazoo, number: "732", report: "https://github.com/python-zk/kazoo/issues/732",
		wrong:  "A lost delete after a non-blocking `acquire` leaves a node, which blocks all others",
		here:   "repeats the delete",
		theirs: kazooLosesItsDelete, ours: lostDeleteIsRepeated,
	},
	{
		library: &kazoo, number: "649", report: "https://github.com/python-zk/kazoo/issues/649", fixed: fixed649,
		wrong:  "A reader and the writer behind it wait for each other",
		here:   "grants the reader first",
		theirs: kazooReaderAndWriter, ours: readerThenWriter,
	},
	{
		library: &kazoo, number: "563", report: "https://github.com/python-zk/kazoo/issues/563",
		wrong:  "A kept `Lock` raises `NoNodeError` once its empty parent is deleted",
		here:   "creates the parent again",
		theirs: kazooWithoutParent, ours: lockWithoutParent,
	},
}

func kazooAtTheStuckCounter(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.Create(path, nil))
	require.NoError(t, s.SetCounter(path, math.MaxInt32))
	holder, newcomer := s.kazoo("lock"), s.kazoo("lock")
	// Of contenders with equal numbers, the one whose random name comes first in the listing is granted the lock. The holder's
	// name may be one that few others precede, so it also tries several.
	for range 1000 {
		holder.acquire()
		for range 20 {
			newcomer.Request("renew", "renewed")
			if newcomer.Request("try", "acquired", "busy") == "acquired" {
				return // both hold it
			}
		}
		holder.Request("release", "released")
		holder.Request("renew", "renewed")
	}
	require.Fail(t, "no newcomer was granted the lock")
}

func kazooLosesItsDelete(t *testing.T) {
	s := serve(t)
	holder, visitor, next := s.kazoo("lock"), s.kazoo("lock"), s.kazoo("lock")
	holder.acquire()
	lost := s.Intercept(zktest.Rule{Op: "delete", Session: visitor.session, Times: 1, Lose: zktest.ToServer})
	require.Equal(t, "busy", visitor.Request("try", "busy", "acquired"))
	require.Equal(t, 1, lost.Fired())
	left := visitor.queued()
	holder.Request("release", "released")
	next.Send("acquire")
	next.waitsFor(left)
	names, err := s.Children(path)
	require.NoError(t, err)
	require.Len(t, names, 2, "of the visitor, which does not want the lock, and of the waiter")
}

func lostDeleteIsRepeated(t *testing.T) {
	bubble(t, func(s servers) {
		ours, _ := s.mutex()
		hold, err := ours.Lock(s.Context())
		require.NoError(s, err)
		visitor, link := s.mutex()
		lost := link.Intercept(zktest.Rule{Op: "delete", Times: 1, Lose: zktest.ToServer})
		_, err = visitor.TryLock(s.Context())
		require.ErrorIs(s, err, lock.ErrLocked)
		ctx, cancel := context.WithTimeout(s.Context(), timeout/4)
		defer cancel()
		_, err = visitor.Lock(ctx) // joins the queue, which TryLock does not
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.Equal(s, 1, lost.Fired())
		soon()
		require.Len(s, s.queue(), 1, "only the holder's")
		require.NoError(s, hold.Unlock(s.Context()))
	})
}

func kazooReaderAndWriter(t *testing.T) {
	s := serve(t)
	first := s.kazoo("writelock")
	first.unlessFixed(fixed649)
	reader, writer := s.kazoo("readlock"), s.kazoo("writelock")
	first.acquire()
	reader.Send("acquire")
	reader.waitsFor(first.queued())
	writer.Send("acquire")
	writer.waitsFor(reader.queued())
	first.Request("release", "released")
	reader.waitsFor(writer.queued())
	writer.waitsFor(reader.queued())
}

func readerThenWriter(t *testing.T) {
	bubble(t, func(s servers) {
		first, err := s.rwMutex().Lock(s.Context())
		require.NoError(s, err)
		reader := begin(s.T, s.rwMutex().RLock)
		soon()
		writer := begin(s.T, s.rwMutex().Lock)
		soon()
		require.NoError(s, first.Unlock(s.Context()))
		read := reader.result()
		soon()
		require.False(s, writer.over())
		require.NoError(s, read.Unlock(s.Context()))
		require.NoError(s, writer.result().Unlock(s.Context()))
	})
}

func kazooWithoutParent(t *testing.T) {
	s := serve(t)
	kept := s.kazoo("lock")
	kept.acquire()
	kept.Request("release", "released")
	require.NoError(t, s.Delete(path))
	require.Equal(t, "missing", kept.Request("acquire", "missing", "acquired"))
}

func lockWithoutParent(t *testing.T) {
	bubble(t, func(s servers) {
		ours, _ := s.mutex()
		hold, err := ours.Lock(s.Context())
		require.NoError(s, err)
		require.NoError(s, hold.Unlock(s.Context()))
		require.NoError(s, s.Delete(path))
		_, err = s.Children(path)
		require.ErrorIs(s, err, zktest.ErrNoNode)
		hold, err = ours.Lock(s.Context())
		require.NoError(s, err)
		require.NoError(s, hold.Unlock(s.Context()))
	})
}
