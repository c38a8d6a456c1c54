// SPDX-License-Identifier: Apache-2.0

package group_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMemberIsListedFromJoinToLeave(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		require.Empty(s, p.members().Members, "the group does not exist yet")
		a, b := p.join("a", "1"), p.join("b", "2")
		require.Equal(s, "a", a.ID())
		require.Equal(s, path+"/a", a.Path())
		now := s.process().members()
		require.Equal(s, []string{"a=1", "b=2"}, names(now.Members))
		require.Equal(s, p.client.SessionID(), now.Members[0].Session)
		require.WithinDuration(s, time.Now(), now.Members[0].Since, time.Second)
		require.Equal(s, now.Members[1].Joined, now.Revision, "the last one to join")
		s.must(a.Leave(s.Context()))
		later := p.members()
		require.Equal(s, []string{"b=2"}, names(later.Members))
		require.Greater(s, later.Revision, now.Revision)
		s.must(b.Leave(s.Context()))
		require.ErrorIs(s, b.Err(), recipes.ErrReleased)
		require.Empty(s, p.members().Members)
	})
}

func TestIDIsOfOneProcessAtATime(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		first := p.join("a", "p")
		_, err := q.Join(s.within(2*timeout), "a", []byte("q"))
		var taken *recipes.TakenError
		require.ErrorAs(s, err, &taken)
		require.Equal(s, p.client.SessionID(), taken.Session)
		require.Equal(s, "p", string(taken.Data))
		require.ErrorContains(s, err, "join: register /brokers/a: ")
		require.Equal(s, []string{"a=p"}, names(q.members().Members))
		require.True(s, first.State().Registered)
	})
}

func TestRestartedProcessJoinsWhenItsFormerSessionHasEnded(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		p.join("a", "before")
		p.link.Refuse(true) // as a process that was killed
		p.link.Reset()
		began := time.Now()
		s.process().join("a", "after")
		require.LessOrEqual(s, time.Since(began), timeout+timeout/2)
		require.Equal(s, []string{"a=after"}, names(s.process().members().Members))
	})
}

func TestMembersReadsOnlyWhatHasChanged(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		for i := range 100 {
			p.join(string(rune('A'+i/10))+string(rune('0'+i%10)), "x")
		}
		require.Len(s, q.members().Members, 100)
		counted := q.link.Intercept(zktest.Rule{})
		require.Len(s, q.members().Members, 100)
		require.Equal(s, 1, counted.Fired(), "a sync")
		m := p.join("new", "x")
		time.Sleep(timeout / 4)
		require.Len(s, q.members().Members, 101)
		require.LessOrEqual(s, counted.Fired(), 4+2, "a sync, a listing and one read, and pings")
		before := counted.Fired()
		s.must(m.Update(s.Context(), []byte("y")))
		require.Len(s, q.members().Members, 101)
		require.LessOrEqual(s, counted.Fired()-before, 2+1, "a sync and one read")
	})
}

func TestNodesThatAreNotEphemeralAreNoMembers(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		s.must(s.Create(path+"/topics", nil))
		p := s.process()
		p.join("a", "")
		require.Equal(s, []string{"a="}, names(p.members().Members))
		_, err := p.Join(s.Context(), "topics", nil)
		require.ErrorContains(s, err, "not ephemeral")
	})
}

func TestInvalidGroupOrMemberIsAnErrorThatNamesIt(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		for _, c := range []struct {
			client *recipes.Client
			path   string
			opts   *group.Options
			want   string
		}{
			{nil, path, nil, "client is nil"},
			{p.client, "", nil, `path "" is empty`},
			{p.client, "brokers", nil, `path "brokers" is not absolute`},
			{p.client, "/", nil, "is the root"},
			{p.client, "/a//b", nil, "empty segment"},
			{p.client, "/a/..", nil, "which ZooKeeper refuses"},
			{p.client, path, &group.Options{ReleaseTimeout: -1}, "release timeout -1ns is negative"},
		} {
			_, err := group.New(c.client, c.path, c.opts)
			require.ErrorContains(s, err, c.want)
			require.ErrorContains(s, err, "new group")
		}
		for _, c := range []struct{ id, metadata, want string }{
			{"", "", "id is empty"},
			{"a/b", "", `id "a/b" has a slash`},
			{"..", "", `id "..": `},
			{"a\x00", "", `id "a\x00": `},
			{"\xff", "", "not valid UTF-8"},
			{strings.Repeat("x", group.MaxID+1), "", "id of 257 bytes is over the limit of 256"},
			{"a", strings.Repeat("x", group.MaxMetadata+1), `metadata of member "a" has 65537 bytes, over the limit of 65536`},
		} {
			_, err := p.Join(s.Context(), c.id, []byte(c.metadata))
			require.ErrorContains(s, err, "join "+path+": ")
			require.ErrorContains(s, err, c.want)
		}
		_, err := p.Join(nil, "a", nil) //nolint:staticcheck // that is the test
		require.ErrorContains(s, err, "context is nil")
		_, err = p.Members(nil) //nolint:staticcheck // that is the test
		require.ErrorContains(s, err, "context is nil")
		for _, err := range p.Observe(nil) { //nolint:staticcheck // that is the test
			require.ErrorContains(s, err, "context is nil")
		}
		require.Zero(s, p.client.OutstandingNodes())
		_, _, err = s.Get(path)
		require.Error(s, err, "nothing was created")

		m := p.join(strings.Repeat("x", group.MaxID), strings.Repeat("y", group.MaxMetadata))
		require.ErrorContains(s, m.Update(s.Context(), make([]byte, group.MaxMetadata+1)), "update "+m.Path()+": metadata of 65537 bytes")
		require.Len(s, p.members().Members[0].Metadata, group.MaxMetadata)
	})
}

// FuzzJoin checks that an id is either refused, and then nothing is created, or listed as it is.
func FuzzJoin(f *testing.F) {
	for _, id := range []string{"a", "", "/", ".", "..", "a/b", "a\x00b", "zookeeper", "\u200b", "\ufffe", "a b", "%2f", "lock-0000000001", "\xff"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		bubble(t, zktest.Options{}, func(s servers) {
			p := s.process()
			m, err := p.Join(s.Context(), id, []byte(id))
			var described *recipes.Error
			if err != nil {
				require.True(s, errors.As(err, &described), "%v", err)
				_, _, err := s.Get(path)
				require.Error(s, err, "nothing was created")
				return
			}
			listed := p.members().Members
			require.Len(s, listed, 1)
			require.Equal(s, id, listed[0].ID)
			s.must(m.Leave(context.WithoutCancel(s.Context())))
			require.Empty(s, p.members().Members)
		})
	})
}
