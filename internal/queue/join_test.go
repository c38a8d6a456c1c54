// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestUncontendedClaimOfAKnownPathTakesOneRequestAndItsReleaseAnother(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		ops := func() int {
			synctest.Wait()
			return len(s.seen(func(r zktest.Request) bool { return !isHeartbeat(r) && r.Op != "ping" }))
		}
		for i := range 10 {
			before := ops()
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.Equal(t, s.czxid(claim.Path()), int64(claim.Token()))
			require.NoError(t, queue.Release(t.Context(), claim))
			if i > 0 {
				require.Equal(t, 2, ops()-before)
			}
		}
	})
}

// Under the guard of a node that stands in the same life of the parent names are
// plain, and their order says who is ahead.
func TestJoinBesideANodeOfItsSessionChecksItAndHasAPlainName(t *testing.T) {
	for _, data := range []string{string(protocol.ParentData(0)), "theirs"} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			parent := s.create("/l", data)
			q := newQueue(t, s.connect(s.options()), nil)
			first, err := q.Claim(t.Context())
			require.NoError(t, err)
			var waiting []<-chan granted
			for range 3 {
				waiting = append(waiting, claiming(t.Context(), q))
				synctest.Wait()
			}
			joins := s.seen(isJoin)
			require.Len(t, joins, 4, data)
			before := first.Path()
			for i, r := range joins[1:] {
				require.Equal(t, zktest.Request{Op: "check", Path: before}, r.Ops[0], data)
				before = fmt.Sprintf("/l/%s%010d", protocol.NamePrefix(parent, "", protocol.Exclusive), i+1)
				require.Contains(t, s.queue(), before, data)
			}
			require.NoError(t, q.Release(t.Context(), first))
			for _, result := range waiting {
				g := <-result
				require.NoError(t, g.err)
				require.NoError(t, q.Release(t.Context(), g.claim))
			}
		})
	}
}

func TestJoinWhoseWitnessIsMissedIsMadeOnceMoreWithoutOne(t *testing.T) {
	for _, data := range []string{string(protocol.ParentData(0)), "theirs"} {
		for _, released := range []bool{true, false} {
			faketime.Test(t, func(t *testing.T) {
				s := newEnsemble(t)
				s.create("/l", data)
				client := s.connect(s.options())
				queue := newQueue(t, client, nil)
				first, err := queue.Claim(t.Context())
				require.NoError(t, err)
				reads := func() int {
					return len(s.seen(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == "/l" }))
				}
				before := reads()
				s.Intercept(zktest.Rule{When: isJoin, Times: 1, Before: func(zktest.Request) {
					if released {
						held(first).Session().Nodes.BeginDelete(held(first).Node())
					}
					s.delete(first.Path())
				}})
				joining := claiming(t.Context(), queue)
				synctest.Wait()
				g := <-joining
				require.NoError(t, g.err)
				require.Len(t, s.seen(isJoin), 3, "once more, and no oftener")
				require.Equal(t, []string{g.claim.Path()}, s.queue())
				if released {
					require.NoError(t, first.Err(), "that its node is missing says nothing")
					require.Equal(t, before, reads())
				} else {
					require.ErrorIs(t, first.Err(), recipes.ErrDeleted)
					require.Equal(t, before+1, reads(), "it may be another parent")
				}
				held(first).Session().Nodes.MarkGone(held(first).Node())
				require.Equal(t, 1, client.OutstandingNodes())
			})
		}
	}
}

func TestParentWithDataOfOthersIsNotWritten(t *testing.T) {
	for name, v := range map[string]zktest.Direction{"answered": 0, "reply lost": zktest.ToClient, "request lost": zktest.ToServer} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			s.create("/l", "theirs")
			s.create("/l/_c_0123456789abcdef-lock-0000000000", "10.0.0.7") // Curator's
			client := s.connect(s.options())
			s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: v})
			result := claiming(t.Context(), newQueue(t, client, nil))
			time.Sleep(time.Minute)
			requireWaiting(t, result, "they are ahead")
			s.delete("/l/_c_0123456789abcdef-lock-0000000000")
			g := <-result
			require.NoError(t, g.err, name)
			require.Equal(t, "theirs", s.data("/l"))
			require.Equal(t, []string{g.claim.Path()}, s.queue(), name)
			require.Equal(t, s.czxid(g.claim.Path()), int64(g.claim.Token()))
			require.Equal(t, 1, client.OutstandingNodes())
		})
	}
}

func TestOwnNodeThatMayNotBeReadIsAnErrorAndGone(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", "theirs")
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{Op: "getData", Below: "/l", Fail: zktest.ErrNoAuth})
		_, err := newQueue(t, client, nil).Claim(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Len(t, s.seen(isJoin), 1)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}
