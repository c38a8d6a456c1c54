// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A node in front of a queue would otherwise block it for as long as a server refuses to delete another node of its session.
func TestNodeThatIsNotDeletedDelaysTheDeletionOfNoOther(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, link := openTestSession(t)
		refused, other := contend(t, s, "/refused"), contend(t, s, "/other")
		throttled := link.Intercept(zktest.Rule{Op: "delete", Path: refused.Path, Fail: zktest.ErrThrottled, Times: 1000})
		s.DeleteSoon(refused)
		time.Sleep(wiretest.Timeout / 4)
		require.Positive(t, throttled.Fired())
		s.DeleteSoon(other)
		synctest.Wait()
		select {
		case <-other.Gone():
		default:
			require.Fail(t, "the other node was not deleted")
		}
		throttled.Remove()
		<-refused.Gone()
	})
}

// A hold's node becomes due T/4 after its deadline, behind the nodes of a thousand waiters that have given up.
func TestNodesOfHoldsAndOfWaitersAreDeletedByTurns(t *testing.T) {
	node := func(path string) *nodes.Node { return &nodes.Node{Path: path} }
	var d deletions
	d.enqueue(nil, []*nodes.Node{node("waiter"), node("waiter"), node("waiter")})
	d.enqueue([]*nodes.Node{node("hold"), node("hold")}, nil)
	for _, want := range []string{"hold", "waiter", "hold", "waiter", "waiter"} {
		require.Equal(t, want, d.takeKnown().Path)
	}
	require.Nil(t, d.takeKnown())
}

// On a way that large packets do not pass, each attempt costs the client its connection.
func TestSearchDuringWhichItsConnectionEndsIsRepeatedAfterAPause(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _ := openTestSession(t)
		searches := 0
		s.config.Find = func(ctx context.Context, _ string, _ []*nodes.Node) (map[string]string, error) {
			if searches++; searches > 1 {
				return nil, nil // it was never created
			}
			s.setAttached(false)
			s.setAttached(true)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		n := nodes.NewNode("/", 0, "n")
		s.Nodes.Register(n)
		s.DeleteSoon(n)
		began := time.Now()
		<-n.Gone()
		require.Equal(t, 2, searches)
		require.GreaterOrEqual(t, time.Since(began), wiretest.Timeout*4/3)
	})
}

func TestNodeThatASearchFindsIsDeletedAlthoughAnotherCouldNotBeRead(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _ := openTestSession(t)
		found, unread := nodes.NewNode("/", 0, "found"), nodes.NewNode("/", 0, "unread")
		_, err := s.conn.Create("/found", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		searches := 0
		s.config.Find = func(context.Context, string, []*nodes.Node) (map[string]string, error) {
			if searches++; searches == 1 {
				return map[string]string{"found": "/found"}, zk.ErrNoAuth
			}
			return nil, nil // it was never created
		}
		for _, n := range []*nodes.Node{found, unread} {
			s.Nodes.Register(n)
			s.Nodes.DeleteSoon(n)
		}
		s.DeleteSoon(found)
		synctest.Wait()
		select {
		case <-found.Gone():
		default:
			require.Fail(t, "the node that was found was not deleted")
		}
		exists, _, err := s.conn.Exists("/found")
		require.NoError(t, err)
		require.False(t, exists)
		<-unread.Gone()
		require.Equal(t, 2, searches)
	})
}
