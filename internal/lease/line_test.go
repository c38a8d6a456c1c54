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
