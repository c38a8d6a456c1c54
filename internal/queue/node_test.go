// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const nodeTimeout = 4 * time.Second

// servers are an ensemble in a bubble of fake time.
type servers struct {
	*testing.T
	*zktest.Ensemble
}

func withServers(t *testing.T, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: nodeTimeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(servers{t, ensemble})
	})
}

func (s servers) connect() (*recipes.Client, *zktest.Link) {
	s.Helper()
	link := s.Link()
	link.Delay(time.Millisecond)
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: nodeTimeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	return client, link
}

func (s servers) claim(client *recipes.Client) *recipes.Claim {
	s.Helper()
	queue, err := queue.New(client, "/l", nil)
	require.NoError(s, err)
	claim, err := queue.Claim(s.Context())
	require.NoError(s, err)
	return claim
}

func (s servers) node(client *recipes.Client, path string) *node.Node {
	s.Helper()
	node, err := node.New(client, path)
	require.NoError(s, err)
	return node
}

func (s servers) data(path string) string {
	s.Helper()
	data, _, err := s.Get(path)
	require.NoError(s, err)
	return string(data)
}

func (s servers) must(err error) {
	s.Helper()
	require.NoError(s, err)
}

// becomes makes Update write data, unless the node already has it.
func becomes(data string) func([]byte, *zk.Stat, bool) ([]byte, error) {
	return func(found []byte, _ *zk.Stat, _ bool) ([]byte, error) {
		if string(found) == data {
			return nil, nil
		}
		return []byte(data), nil
	}
}

func TestUpdateMakesTheNodeAndThoseAboveIt(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		claim := s.claim(client)
		node := s.node(client, "/a/b/c")
		_, _, err := node.Read(s.Context())
		require.ErrorIs(s, err, zk.ErrNoNode)
		version, err := node.Update(s.Context(), claim, becomes("one"))
		require.NoError(s, err)
		require.Zero(s, version)
		version, err = node.Update(s.Context(), claim, becomes("two"))
		require.NoError(s, err)
		require.Equal(s, int32(1), version)
		version, err = node.Update(s.Context(), claim, becomes("two"))
		require.NoError(s, err)
		require.Equal(s, int32(1), version, "it is there")
		data, stat, err := node.Read(s.Context())
		require.NoError(s, err)
		require.Equal(s, "two", string(data))
		require.Equal(s, int32(1), stat.Version)
	})
}

func TestUpdateBeginsAgainAfterAWriteOfAnotherClient(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		claim := s.claim(client)
		var found []string
		meanwhile := []func(){
			func() { s.must(s.Create("/state", []byte("theirs"))) },
			func() { s.must(s.Set("/state", []byte("theirs, too"))) },
			func() { s.must(s.Delete("/state")) },
			func() {},
		}
		version, err := s.node(client, "/state").Update(s.Context(), claim, func(data []byte, stat *zk.Stat, unanswered bool) ([]byte, error) {
			require.False(s, unanswered)
			require.Equal(s, stat == nil, data == nil)
			found = append(found, string(data))
			meanwhile[0]()
			meanwhile = meanwhile[1:]
			return []byte("ours"), nil
		})
		require.NoError(s, err)
		require.Zero(s, version)
		require.Equal(s, []string{"", "theirs", "theirs, too", ""}, found)
		require.Equal(s, "ours", s.data("/state"))
	})
}

func TestUpdateWritesNothingWithoutItsClaim(t *testing.T) {
	withServers(t, func(s servers) {
		s.must(s.Create("/state", []byte("old")))
		client, _ := s.connect()
		claim := s.claim(client)
		node := s.node(client, "/state")
		other, _ := s.connect()
		_, err := s.node(other, "/state").Update(s.Context(), claim, becomes("new"))
		require.ErrorContains(s, err, "another client")
		_, err = node.Update(s.Context(), nil, becomes("new"))
		require.ErrorContains(s, err, "claim is nil")
		var none context.Context
		_, err = node.Update(none, claim, becomes("new"))
		require.ErrorContains(s, err, "context is nil")
		mine := errors.New("not like this")
		_, err = node.Update(s.Context(), claim, func([]byte, *zk.Stat, bool) ([]byte, error) { return nil, mine })
		require.ErrorIs(s, err, mine)
		_, err = s.node(client, "/missing").Update(s.Context(), claim, func([]byte, *zk.Stat, bool) ([]byte, error) { return nil, nil })
		require.ErrorIs(s, err, zk.ErrNoNode)

		_, err = node.Update(s.Context(), claim, func([]byte, *zk.Stat, bool) ([]byte, error) {
			s.must(s.Delete(claim.Path()))
			return []byte("new"), nil
		})
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorIs(s, err, recipes.ErrDeleted)
		require.NotErrorIs(s, err, recipes.ErrUncertain)
		_, err = node.Update(s.Context(), claim, becomes("new"))
		require.ErrorIs(s, err, recipes.ErrLost)
		require.Equal(s, "old", s.data("/state"))
	})
}

func TestUpdateWhoseReplyIsLostKnowsItsOwnDataAgain(t *testing.T) {
	for _, landed := range []bool{true, false} {
		withServers(t, func(s servers) {
			s.must(s.Create("/state", []byte("old")))
			client, link := s.connect()
			claim := s.claim(client)
			time.Sleep(nodeTimeout * 13 / 12) // heartbeats and pings are a while off
			cut := link.LoseRequest
			if landed {
				cut = link.LoseReply
			}
			trap := cut(2) // the first frame is the read
			var unanswered []bool
			version, err := s.node(client, "/state").Update(s.Context(), claim, func(data []byte, stat *zk.Stat, lost bool) ([]byte, error) {
				unanswered = append(unanswered, lost)
				return becomes("new")(data, stat, lost)
			})
			require.NoError(s, err)
			require.True(s, trap.Sprung())
			require.Equal(s, []bool{false, true}, unanswered)
			require.Equal(s, int32(1), version)
			_, stat, err := s.Get("/state")
			require.NoError(s, err)
			require.Equal(s, int32(1), stat.Version)
		})
	}
}

func TestWatchReportsTheNextChangeOfANodeThatMayBeMissing(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		node := s.node(client, "/state")
		for _, step := range []struct {
			change func()
			data   string
			there  bool
		}{
			{func() { s.must(s.Create("/state", []byte("one"))) }, "one", true},
			{func() { s.must(s.Set("/state", []byte("two"))) }, "two", true},
			{func() { s.must(s.Delete("/state")) }, "", false},
			{func() { s.must(s.Create("/state", []byte("three"))) }, "three", true},
		} {
			content, err := node.Watch(s.Context())
			require.NoError(s, err)
			synctest.Wait()
			select {
			case <-content.Changed:
				require.Fail(s, "nothing has changed")
			default:
			}
			step.change()
			<-content.Changed
			content, err = node.Watch(s.Context())
			require.NoError(s, err)
			require.Equal(s, step.there, content.Stat != nil)
			require.Equal(s, step.data, string(content.Data))
		}
	})
}
