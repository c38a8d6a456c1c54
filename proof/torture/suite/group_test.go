// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func (s *env) group(client *recipes.Client) *group.Group {
	s.T.Helper()
	g, err := group.New(client, s.Path("group"), nil)
	require.NoError(s.T, err)
	return g
}

func TestMemberIsRegisteredInEachSessionAndFollowedFromAnotherServer(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	servers := s.ensemble.Addrs()
	client := s.Connect(recipes.Options{}, servers[0])
	member, err := s.group(client).Join(s.Ctx, "a", []byte("1"))
	require.NoError(t, err)
	session, expired, left := client.SessionID(), false, false
	for change, err := range s.group(s.Connect(recipes.Options{}, servers[1])).Observe(s.Ctx) {
		require.NoError(t, err)
		require.LessOrEqual(t, len(change.Members), 1)
		switch {
		case len(change.Members) == 0 && left:
			return
		case len(change.Members) == 0:
			continue // between two sessions
		case !expired:
			expired = true
			require.Equal(t, session, change.Members[0].Session)
			require.NoError(t, s.ensemble.Expire(s.Ctx, session))
			require.NoError(t, member.Update(s.Ctx, []byte("2")))
		case change.Members[0].Session != session && string(change.Members[0].Metadata) == "2":
			require.True(t, member.State().Registered)
			require.NoError(t, member.Leave(s.Ctx))
			left = true
		}
	}
}

func TestRestartedMemberWaitsForItsFormerSession(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	proxy := s.proxy(s.ensemble.Servers()[0])
	killed := s.Connect(recipes.Options{}, proxy.Addr())
	_, err := s.group(killed).Join(s.Ctx, "a", []byte("before"))
	require.NoError(t, err)
	former := killed.SessionID()
	proxy.Refuse() // as a process that was killed
	began := time.Now()
	member, err := s.group(s.Connect(recipes.Options{})).Join(s.Ctx, "a", []byte("after"))
	require.NoError(t, err)
	require.Greater(t, time.Since(began), time.Second, "it waited")
	now, err := s.group(s.Connect(recipes.Options{})).Members(s.Ctx)
	require.NoError(t, err)
	require.Len(t, now.Members, 1)
	require.NotEqual(t, former, now.Members[0].Session)
	require.Equal(t, "after", string(now.Members[0].Metadata))
	killed.Close() // else it would register again
	require.NoError(t, member.Leave(s.Ctx))
}

// All members of a burst are listed at the end, by observers at every server.
func TestObserversAtAllServersAgreeAfterABurst(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.Connect(recipes.Options{})
	const members = 50
	revisions := make(chan int64, 3)
	for _, addr := range s.ensemble.Addrs() {
		g := s.group(s.Connect(recipes.Options{}, addr))
		go func() {
			for change, err := range g.Observe(s.Ctx) {
				if err != nil || len(change.Members) == members {
					revisions <- change.Revision
					return
				}
			}
		}()
	}
	g := s.group(client)
	for i := range members {
		_, err := g.Join(s.Ctx, fmt.Sprint(i), nil)
		require.NoError(t, err)
	}
	first := <-revisions
	require.NotZero(t, first)
	require.Equal(t, first, <-revisions)
	require.Equal(t, first, <-revisions)
	client.Close() // the members leave with it
}
