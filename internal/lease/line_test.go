// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodeIsFirstOnlyWhenAllAheadOfItAreKnownToBeDeleted(t *testing.T) {
	var l line
	require.False(t, l.isFirst("a"), "nothing is known")
	l.listed([]string{"a", "b", "c", "d"})
	require.True(t, l.isFirst("a"))
	l.left("b")
	require.False(t, l.isFirst("c"), "a may still hold")
	l.left("a")
	require.False(t, l.isFirst("b"), "b is deleted")
	require.True(t, l.isFirst("c"))
	require.False(t, l.isFirst("d"))
	l.left("c")
	require.True(t, l.isFirst("d"))
	require.False(t, l.isFirst("e"), "joined after the listing")
	l.left("d")
	require.False(t, l.isFirst("e"))
	l.listed([]string{"e"})
	require.True(t, l.isFirst("e"))
}

func TestDeparturesThatALineCannotRememberCostAListing(t *testing.T) {
	var l line
	l.listed([]string{"a", "b"})
	for i := range maxGone {
		l.left(fmt.Sprint(i))
	}
	l.left("a")
	require.False(t, l.isFirst("b"))
	require.LessOrEqual(t, len(l.gone), maxGone)
}

// Otherwise keys of many waiters that are used once fill the memory of a replica.
func TestLastAcquisitionForgetsTheNamesOfALongQueue(t *testing.T) {
	names := make([]string, longQueue)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	var q pathQueue
	q.acquiring.Add(2)
	q.line.listed(names)
	q.seen.Store(&view{names: names})
	q.acquired()
	require.True(t, q.line.isFirst(names[0]))
	q.acquired()
	require.Nil(t, q.line.names)
	require.Nil(t, q.line.gone)
	require.Nil(t, q.seen.Load())

	q.line.listed(names)
	for _, n := range names[:longQueue-1] {
		q.line.left(n)
	}
	require.True(t, q.line.isFirst(names[longQueue-1]))
	require.Less(t, cap(q.line.names), longQueue/2)

	q.line.listed([]string{"a"})
	q.acquiring.Add(1)
	q.acquired()
	require.True(t, q.line.isFirst("a"), "a hand-off to the next call needs no listing")
}
