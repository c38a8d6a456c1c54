// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// newWrite returns a write of one operation.
func newWrite(as Role, queue string) *Write {
	return &Write{Queue: queue, as: as, Operations: func() []any { return []any{&zk.CheckVersionRequest{Path: "/q"}} }}
}

// leads reports whether the caller of a write that was pending has been told to send the next group.
func leads(w *Write) bool {
	select {
	case next := <-w.told:
		return next == sendGroup
	default:
		return false
	}
}

func TestHoldersAndJoinsThatNeverPauseKeepNoOtherWriteOutOfTheGroups(t *testing.T) {
	var g groups
	first := newWrite(Holder, "")
	isFirst, _ := g.arrive(first)
	require.True(t, isFirst)
	var pending []*Write
	arrive := func(n int) {
		for range n {
			for _, as := range []Role{Holder, Joining} {
				w := newWrite(as, "")
				g.arrive(w)
				pending = append(pending, w)
			}
		}
	}
	arrive(2 * maxGrouped)
	other := newWrite(Ordinary, "")
	g.arrive(other)
	for range 10 {
		group, _ := g.compose(&Turn{turns: &turns{}}, first)
		joins := 0
		for _, w := range group {
			if w == other {
				return
			}
			if w.as == Joining {
				joins++
			}
		}
		require.GreaterOrEqual(t, joins, maxGrouped/fairShare/2)
		arrive(maxGrouped)
		i := slices.IndexFunc(pending, leads)
		require.GreaterOrEqual(t, i, 0)
		first = pending[i]
	}
	t.Fatal("it is still pending")
}

func TestPanicOfOperationsIsNotHidden(t *testing.T) {
	var g groups
	first, second := newWrite(Joining, "/a"), newWrite(Joining, "/b")
	second.Operations = func() []any { panic("of operations") }
	g.arrive(first)
	g.arrive(second)
	require.PanicsWithValue(t, "of operations", func() { g.compose(&Turn{turns: &turns{}}, first) })
}

func TestQueuesThatAreRefusedAreNotForgottenTogether(t *testing.T) {
	var g groups
	for i := range maxRefused + 100 {
		w := newWrite(Joining, fmt.Sprint("/q/", i))
		g.record(w, []zk.MultiResponse{{Error: zk.ErrNoAuth}}, zk.ErrNoAuth)
		require.True(t, g.refused[w.Queue])
	}
	require.Len(t, g.refused, maxRefused)
}
