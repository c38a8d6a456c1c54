// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/ring"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func (s servers) ring(client *recipes.Client) *ring.Ring {
	s.Helper()
	ring, err := ring.New(client, "/admin/actions", 3, nil)
	require.NoError(s, err)
	return ring
}

func (s servers) entries(ring *ring.Ring) (data []string) {
	s.Helper()
	for e, err := range ring.Entries(s.Context()) {
		require.NoError(s, err)
		data = append(data, string(e.Data))
	}
	return data
}

func (s servers) nodes() []string {
	s.Helper()
	names, err := s.Children("/admin/actions")
	require.NoError(s, err)
	return names
}

func TestRingKeepsNewestEntriesOfAllClients(t *testing.T) {
	withServers(t, func(s servers) {
		one, _ := s.connect()
		two, _ := s.connect()
		rings := []*ring.Ring{s.ring(one), s.ring(two)}
		require.Empty(s, s.entries(rings[0]), "no client has appended yet")
		for i := range 5 {
			ring := rings[i%2]
			name, err := ring.Append(s.Context(), fmt.Append(nil, "begun ", i))
			require.NoError(s, err)
			require.NoError(s, ring.Replace(s.Context(), name, fmt.Append(nil, "ended ", i)))
			require.NoError(s, ring.Trim(s.Context()))
		}
		require.Equal(s, []string{"ended 4", "ended 3", "ended 2"}, s.entries(rings[1]))
		require.Len(s, s.nodes(), 3)
		name, err := rings[0].Append(s.Context(), []byte("refused"))
		require.NoError(s, err)
		for range 2 {
			require.NoError(s, rings[1].Delete(s.Context(), name))
		}
		require.Len(s, s.nodes(), 3)
		require.False(s, slices.ContainsFunc(s.nodes(), protocol.IsContender))
	})
}

// A client's new session can be served by a follower that is behind the write of the former one.
func TestEntryThatTheServerDoesNotListYetIsDeleted(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		ring := s.ring(client)
		name, err := ring.Append(s.Context(), []byte("refused"))
		require.NoError(s, err)
		link.Intercept(zktest.Rule{Op: "getChildren", Path: "/admin/actions", Fail: zktest.ErrNoNode, Times: 1})
		require.NoError(s, ring.Delete(s.Context(), name))
		require.Empty(s, s.nodes())
	})
}

// repeated returns a ring with the entries a and b, and the name of b, whose create was repeated.
func (s servers) repeated() (ring *ring.Ring, name string) {
	s.Helper()
	client, link := s.connect()
	ring = s.ring(client)
	_, err := ring.Append(s.Context(), []byte("a"))
	require.NoError(s, err)
	link.Intercept(zktest.Rule{Op: "create", Below: "/admin", Times: 1, Lose: zktest.ToClient})
	name, err = ring.Append(s.Context(), []byte("b"))
	require.NoError(s, err)
	return ring, name
}

func TestRepeatedAppendIsOneEntry(t *testing.T) {
	withServers(t, func(s servers) {
		ring, name := s.repeated()
		require.Len(s, s.nodes(), 3, "the create whose answer was lost has made a node")
		require.NoError(s, ring.Replace(s.Context(), name, []byte("c")))
		require.Equal(s, []string{"c", "a"}, s.entries(ring))
		require.NoError(s, ring.Trim(s.Context()))
		require.Len(s, s.nodes(), 2)
		require.Equal(s, []string{"c", "a"}, s.entries(ring))
	})
}

func TestDeletedEntryLeavesNoNodeOfRepeatedAppend(t *testing.T) {
	withServers(t, func(s servers) {
		ring, name := s.repeated()
		require.Len(s, s.nodes(), 3)
		require.NoError(s, ring.Delete(s.Context(), name))
		require.Equal(s, []string{"a"}, s.entries(ring))
		require.Len(s, s.nodes(), 1)
	})
}

func TestRingThatIsNotUsableIsRefused(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		for _, err := range []error{
			func() error { _, err := ring.New(nil, "/a", 1, nil); return err }(),
			func() error { _, err := ring.New(client, "a", 1, nil); return err }(),
			func() error { _, err := ring.New(client, "/a", 0, nil); return err }(),
		} {
			require.ErrorContains(s, err, "new ring")
		}
	})
}
