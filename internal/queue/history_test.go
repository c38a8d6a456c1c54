// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const historyPath = "/app/lockkeeper-history"

func (s servers) history(client *recipes.Client) string {
	s.Helper()
	id, err := client.History(s.Context())
	require.NoError(s, err)
	require.NoError(s, fencing.CheckHistory(id))
	return id
}

func TestHistoryIsCreatedOnceWithTheClientsACL(t *testing.T) {
	withServers(t, func(s servers) {
		acl := append(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "a", "b")...)
		client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
			SessionTimeout: nodeTimeout, Namespace: "/app", Dial: s.Dial, ACL: acl, Auth: []recipes.Auth{recipes.Digest("a", "b")},
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(s, err)
		defer client.Close()
		id := s.history(client)
		data, stat, err := s.Get(historyPath)
		require.NoError(s, err)
		require.Equal(s, id, string(data))
		require.Zero(s, stat.EphemeralOwner, "persistent")
		created, _, err := client.Conn().GetACL(historyPath)
		require.NoError(s, err)
		require.ElementsMatch(s, acl, created)

		other := s.connectIn("/app")
		require.Equal(s, id, s.history(other))
		require.NotEqual(s, id, s.history(s.connectIn("")), "each namespace has its own")
		_, stat, err = s.Get(historyPath)
		require.NoError(s, err)
		require.Zero(s, stat.Version, "written once")
	})
}

func TestClientsThatCreateTheHistoryTogetherGetOneID(t *testing.T) {
	withServers(t, func(s servers) {
		const clients = 5
		ids := make(chan string, clients)
		for range clients {
			link := s.Link()
			client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
				SessionTimeout: nodeTimeout, Namespace: "/app", Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(s, err)
			s.Cleanup(func() { client.Close() })
			link.Delay(10 * time.Millisecond) // all have read that it is missing when the first creates it
			go func() {
				id, err := client.History(s.Context())
				if err != nil {
					id = err.Error()
				}
				ids <- id
			}()
		}
		data := ""
		for range clients {
			id := <-ids
			if data == "" {
				data = s.data(historyPath)
			}
			require.Equal(s, data, id)
		}
	})
}

func TestHistoryIsReadAgainInAnotherSession(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		id := s.history(client)
		s.must(s.Delete("/lockkeeper-history"))
		link.Hold(zktest.Both)
		require.Equal(s, id, s.history(client), "known in this session, without a request")
		link.Release()

		session := client.SessionID()
		s.must(s.Expire(t.Context(), session))
		for client.SessionID() == session {
			time.Sleep(time.Millisecond)
		}
		again := s.history(client)
		require.NotEqual(s, id, again)
		require.Equal(s, again, s.data("/lockkeeper-history"))
	})
}

func TestHistoryWhoseReplyIsLostIsTheOneOfTheNode(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for _, landed := range []bool{false, true} {
			withServers(t, func(s servers) {
				client, link := s.connect()
				cut := link.LoseRequest
				if landed {
					cut = link.LoseReply
				}
				cut(n)
				require.Equal(s, s.history(client), s.data("/lockkeeper-history"))
			})
		}
	}
}

func TestNodeThatHoldsNoHistoryIsRefusedAndStaysAsItIs(t *testing.T) {
	withServers(t, func(s servers) {
		client := s.connectIn("/app")
		s.must(s.Create(historyPath, nil))
		for data, why := range map[string]string{
			"":                      "is empty",
			"two words":             `contains the character ' '`,
			strings.Repeat("x", 65): "more than 64",
		} {
			s.must(s.Set(historyPath, []byte(data)))
			id, err := client.History(s.Context())
			require.Empty(s, id)
			require.ErrorContains(s, err, "history: read "+historyPath+": the node holds no history id (delete it to begin a new history)")
			require.ErrorContains(s, err, why)
			require.Equal(s, data, s.data(historyPath))
		}
		s.must(s.Delete(historyPath))
		_, err := client.Conn().Create(historyPath, []byte("fleeting"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		s.must(err)
		_, err = client.History(s.Context())
		require.ErrorContains(s, err, "ephemeral")
		s.must(s.Set(historyPath, nil))
		s.must(s.Delete(historyPath))
		require.Equal(s, s.history(client), s.data(historyPath), "an error is not kept")
	})
}

func TestHistoryThatCannotBeHadNamesItsPath(t *testing.T) {
	withServers(t, func(s servers) {
		client := s.connectIn("/app")
		_, err := client.Conn().Create("/app", nil, 0, zk.WorldACL(zk.PermRead))
		s.must(err)
		_, err = client.History(s.Context())
		require.ErrorIs(s, err, zk.ErrNoAuth)
		require.ErrorContains(s, err, historyPath)

		away, link := s.connect()
		link.Refuse(true)
		link.Reset()
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = away.History(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.ErrorContains(s, err, "/lockkeeper-history")
		require.Equal(s, time.Second, time.Since(began))
		link.Refuse(false)

		var none context.Context
		_, err = client.History(none)
		require.ErrorContains(s, err, "context is nil")
		client.Close()
		_, err = client.History(s.Context())
		require.ErrorIs(s, err, recipes.ErrClosed)
		require.ErrorContains(s, err, historyPath)
	})
}

// The wiped ensemble grants the same tokens again, and no other check would notice.
func TestWipeChangesTheHistory(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		id, session := s.history(client), client.SessionID()
		first := s.claim(client)
		s.must(s.Server(1).Wipe())
		<-first.Done()
		for client.SessionID() == session {
			time.Sleep(time.Millisecond)
		}
		second := s.claim(client)
		require.LessOrEqual(s, second.Token(), first.Token())
		require.NotEqual(s, id, s.history(client))
	})
}

func TestServerThatIsBehindDoesNotShowAnEarlierHistory(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{Servers: 3, InMemory: true, Tick: nodeTimeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		require.NoError(t, ensemble.Create("/lockkeeper-history", []byte("before-the-restore")))
		followers, err := ensemble.Followers(t.Context())
		require.NoError(t, err)
		behind := followers[0]
		client, err := recipes.Connect(t.Context(), []string{behind.Addr()}, &recipes.Options{
			SessionTimeout: nodeTimeout, Dial: ensemble.Dial, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		defer client.Close()
		behind.Lag(nodeTimeout / 16)
		require.NoError(t, ensemble.Delete("/lockkeeper-history"))
		require.NoError(t, ensemble.Create("/lockkeeper-history", []byte("after-the-restore")))
		id, err := client.History(t.Context())
		require.NoError(t, err)
		require.Equal(t, "after-the-restore", id)
	})
}
