// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestJoinBelowARecreatedParentIsNoGrant(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _, queue, claim := newHeld(t)
		require.NoError(t, queue.Release(t.Context(), claim))
		s.delete("/l")
		parent := s.create("/l", string(protocol.ParentData(0))) // in its next life
		again, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, claim.Path(), again.Path())
		require.Contains(t, again.Path(), "/l/"+strconv.FormatInt(parent, 36)+"-")
		require.Equal(t, []string{again.Path()}, s.queue(), "the node with the old tag is gone")
	})
}

func TestClaimIsNotifiedImmediatelyWhenAJoinOfItsClientMissesItsNode(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, client, queue, claim := newHeld(t)
		s.delete(claim.Path())
		s.delete("/l")
		s.create("/l", string(protocol.ParentData(0))) // in its next life, with numbers from 0 on
		again, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, claim.Err(), recipes.ErrDeleted)
		require.NotEqual(t, claim.Path(), again.Path())
		time.Sleep(testTimeout)
		require.NoError(t, again.Err())
		require.Equal(t, []string{again.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
	})
}

// An operator deletes the parent with everything below it, and other clients have
// created it again. A client that does not know of that joins with the tag of the parent's
// former life, and gets the number that a claim had in that life. The claim does not know of it
// either.
func TestLostClaimCommitsNothingWhileAStaleJoinIsUnderWay(t *testing.T) {
	for name, joiner := range map[string]func(own, other *Queue) *Queue{
		"of its own client": func(own, _ *Queue) *Queue { return own },
		"of another client": func(_, other *Queue) *Queue { return other },
	} {
		for _, data := range []string{string(protocol.ParentData(0)), "theirs"} {
			t.Run(name+", parent's data: "+data, func(t *testing.T) {
				faketime.Test(t, func(t *testing.T) {
					s := newEnsemble(t)
					s.create("/state", "old")
					s.create("/l", data)
					own := newQueue(t, s.connect(s.options()), nil)
					other := newQueue(t, s.connect(s.options()), nil)
					for _, queue := range []*Queue{own, other} {
						claim, err := queue.Claim(t.Context())
						require.NoError(t, err)
						require.NoError(t, queue.Release(t.Context(), claim))
					}
					claim := plainClaim(t, own)
					s.link.Hold(zktest.ToClient) // clients are notified of nothing
					s.recreate(data, memberOf(claim).Sequence)
					joining := claiming(t.Context(), joiner(own, other))
					synctest.Wait()
					committed := committing(t.Context(), claim)
					synctest.Wait()
					require.Len(t, s.seen(isStaleCommit), 1, "it reached a server before the join was answered")
					s.heal()
					require.ErrorIs(t, <-committed, recipes.ErrDeleted)
					require.Equal(t, "old", s.data("/state"))
					require.ErrorIs(t, claim.Check(t.Context()), recipes.ErrDeleted)
					require.NoError(t, (<-joining).err)
				})
			})
		}
	}
}

// plainClaim returns a claim whose node has no nonce in its name: it joined beside another node of
// its session.
func plainClaim(t *testing.T, queue *Queue) *recipes.Claim {
	t.Helper()
	first, err := queue.Claim(t.Context())
	require.NoError(t, err)
	result := claiming(t.Context(), queue)
	synctest.Wait()
	require.NoError(t, queue.Release(t.Context(), first))
	g := <-result
	require.NoError(t, g.err)
	require.Regexp(t, `^/l/[0-9a-z]+-lock-`, g.claim.Path(), "without a nonce")
	return g.claim
}

// committing commits a change of /state under the claim.
func committing(ctx context.Context, claim *recipes.Claim) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := claim.Commit(ctx, setState("stale"))
		result <- err
	}()
	return result
}

func isStaleCommit(r zktest.Request) bool {
	return isCommit(r) && string(r.Ops[len(r.Ops)-1].Data) == "stale"
}

// Two joins of one session are sent before either is answered. The parent is
// deleted and made again between them.
func TestLostClaimCommitsNothingWhileAJoinThatWasSentWithItsOwnIsUnderWay(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/state", "old")
		queue := newQueue(t, s.connect(s.options()), nil)
		first, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), first))
		early := s.Intercept(zktest.Rule{When: isJoin, Times: 1, Hold: zktest.ToServer}) // until the other is sent
		replies := s.Intercept(zktest.Rule{When: isJoin, Skip: 1, Times: 1, Hold: zktest.ToClient, Before: func(zktest.Request) {
			time.Sleep(time.Millisecond) // until the first is answered
			s.recreate(string(protocol.ParentData(0)), memberOf(first).Sequence+1)
		}})
		joining := []<-chan granted{claiming(t.Context(), queue), claiming(t.Context(), queue)}
		time.Sleep(time.Millisecond)
		early.Release()
		time.Sleep(10 * time.Millisecond)
		require.Len(t, s.seen(isJoin), 3)
		var claim *recipes.Claim
		for _, result := range joining {
			select {
			case g := <-result:
				require.NoError(t, g.err)
				claim = g.claim
			default:
			}
		}
		require.NotNil(t, claim)
		committed := committing(t.Context(), claim)
		synctest.Wait()
		require.Len(t, s.seen(isStaleCommit), 1, "it reached a server before the second join was answered")
		replies.Release()
		require.ErrorIs(t, <-committed, recipes.ErrDeleted)
		require.Equal(t, "old", s.data("/state"))
	})
}

// Its numbers have begun anew: the node's is lower than those that were seen.
func TestLostReplyOfCreateBelowARecreatedParentIsFoundAgain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		for range 5 {
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.NoError(t, queue.Release(t.Context(), claim))
		}
		s.delete("/l")
		parent := s.create("/l", string(protocol.ParentData(0)))
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		claim, err := queue.Claim(ctx)
		require.NoError(t, err)
		require.Contains(t, claim.Path(), "/l/"+strconv.FormatInt(parent, 36)+"-")
		require.Equal(t, []string{claim.Path()}, s.queue(), "the node with the old tag is gone")
		require.Equal(t, 1, client.OutstandingNodes())
	})
}
