// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJournalKeepsTheStateOfEventsThatItDrops(t *testing.T) {
	j := newJournal()
	j.add("a", kindInfo, "first", state{"a.process": "running", "a.lock": "out"})
	for range keptEvents {
		j.add("a", kindInfo, "further", nil)
	}
	before, events, _ := j.since(0)
	require.Equal(t, state{"a.process": "running", "a.lock": "out"}, before)
	require.Len(t, events, keptEvents)
	require.Equal(t, 2, events[0].ID)

	before, events, grown := j.since(keptEvents)
	require.Nil(t, before, "the reader has it")
	require.Len(t, events, 1)
	_, events, _ = j.since(keptEvents + 1)
	require.Empty(t, events)
	j.add("a", kindInfo, "last", nil)
	<-grown
}
