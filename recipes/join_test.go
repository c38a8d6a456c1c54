// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
	"github.com/lockkeeper/lockkeeper/zktest"
)

type recovery struct {
	found bool
	err   error
}

// recovering returns options whose trace records the outcome of each recovered create.
func recovering(s *ensemble) (opts *Options, found *[]recovery) {
	found = new([]recovery)
	opts = s.options()
	opts.Trace = &Trace{Recovered: func(_ string, ok bool, err error) { *found = append(*found, recovery{ok, err}) }}
	return opts, found
}

func TestUncontendedClaimOfAKnownPathTakesOneRequestAndItsReleaseAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
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

func TestLostReplyOfCreateIsFoundAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts, recovered := recovering(s)
		client := s.connect(opts)
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		claim := claimed(t, client)
		require.Equal(t, []string{claim.Path()}, s.queue(), "one node, and it is the claim's")
		require.Equal(t, s.czxid(claim.Path()), int64(claim.Token()))
		require.Equal(t, 1, client.OutstandingNodes())
		synctest.Wait()
		require.Equal(t, []recovery{{found: true}}, *recovered)
		time.Sleep(time.Hour)
		require.NoError(t, claim.Err())
		require.NoError(t, newQueue(t, client, nil).Release(t.Context(), claim))
		require.Empty(t, s.queue())
	})
}

func TestLostRequestOfCreateIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts, recovered := recovering(s)
		client := s.connect(opts)
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToServer})
		claim := claimed(t, client)
		require.Equal(t, []string{claim.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
		synctest.Wait()
		require.Equal(t, []recovery{{found: false}}, *recovered)
	})
}

func TestLostReplyOfCreateBehindOthersIsFoundAgainAndWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", parentMark)
		s.create(another, "")
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(time.Minute)
		requireWaiting(t, result, "another contender is ahead")
		require.Len(t, s.queue(), 2)
		s.delete(another)
		require.NoError(t, (<-result).err)
	})
}

func TestCreateThatIsAnsweredAfterItsCallerGaveUpLeavesNoNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		s.Intercept(zktest.Rule{When: isJoin, Delay: time.Second}) // too short for the session to leave the server
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		require.Len(t, s.seen(isJoin), 1)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
		require.Len(t, s.seen(isOp("connect")), 1)
	})
}

// The cause of a context can be any error, also a server's answer to another request.
func TestCauseThatLooksLikeAServersAnswerIsNotTakenForOne(t *testing.T) {
	for _, answer := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth, session.NotSent(io.EOF)} {
		bubble(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			s.Intercept(zktest.Rule{When: isJoin, Delay: time.Second}) // too short for the session to leave the server
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := fmt.Errorf("worker: %w", answer)
			time.AfterFunc(time.Second/2, func() { cancel(cause) })
			_, err := newQueue(t, client, nil).Claim(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
			require.Len(t, s.seen(isJoin), 1, "%v", cause)
			time.Sleep(2 * time.Second)
			require.Empty(t, s.queue(), "%v", cause)
			require.Zero(t, client.OutstandingNodes())
		})
	}
}

// A code that the client has no name for can be that of a quota.
func TestCreateThatIsAnsweredWithACodeWithoutANameFailsOnce(t *testing.T) {
	for _, parent := range []string{parentMark, "theirs"} {
		bubble(t, func(t *testing.T) {
			s := newEnsemble(t)
			s.create("/l", parent)
			client := s.connect(s.options())
			s.Intercept(zktest.Rule{When: isJoin, Times: 100, Fail: zktest.ErrQuotaExceeded})
			_, err := newQueue(t, client, nil).Claim(t.Context())
			require.ErrorContains(t, err, "-125", parent)
			require.Len(t, s.seen(isJoin), 1, parent)
			require.Empty(t, s.queue(), parent)
			require.Zero(t, client.OutstandingNodes(), parent)
		})
	}
}

func TestCreateThatIsNeverAnsweredLeavesNoNode(t *testing.T) {
	for name, v := range map[string]zktest.Direction{"carried out": zktest.ToClient, "not carried out": zktest.ToServer} {
		bubble(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			s.Intercept(zktest.Rule{When: isJoin, Times: 1, Hold: v})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			began := time.Now()
			_, err := newQueue(t, client, nil).Claim(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.LessOrEqual(t, time.Since(began), time.Second/2+testTimeout, "the release timeout bounds what it still does")
			time.Sleep(testTimeout)
			require.Empty(t, s.queue(), name)
			require.Zero(t, client.OutstandingNodes(), name)
		})
	}
}

func TestNodeOfASessionThatExpiredWhileItsCreateWasInFlightIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		first := client.SessionID()
		s.Intercept(zktest.Rule{When: isJoin, Session: first, Before: func(zktest.Request) { s.expire(first) }})
		claim := claimed(t, client)
		require.NotEqual(t, first, client.SessionID())
		require.Equal(t, []string{claim.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
		require.Empty(t, s.seen(isOp("delete")), "nothing is deleted by name in another session")
	})
}

func TestJoinBelowARecreatedParentIsNoGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), claim))
		s.delete("/l")
		parent := s.create("/l", parentMark) // in its next life
		again, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, claim.Path(), again.Path())
		require.Contains(t, again.Path(), "/l/"+strconv.FormatInt(parent, 36)+"-")
		require.Equal(t, []string{again.Path()}, s.queue(), "the node with the old tag is gone")
	})
}

func TestClaimIsNotifiedImmediatelyWhenAJoinOfItsClientMissesItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		s.delete(claim.Path())
		s.delete("/l")
		s.create("/l", parentMark) // in its next life, with numbers from 0 on
		again, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, claim.Err(), ErrDeleted)
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
		for _, data := range []string{parentMark, "theirs"} {
			t.Run(name+", parent's data: "+data, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
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
					claim, err := own.Claim(t.Context())
					require.NoError(t, err)
					s.recreate(data, claim.place.member.sequence)
					replies := s.Intercept(zktest.Rule{When: isJoin, Times: 1, Hold: zktest.ToClient})
					joining := claiming(t.Context(), joiner(own, other))
					synctest.Wait()
					committed := committing(t.Context(), claim)
					synctest.Wait()
					require.Len(t, s.seen(isStaleCommit), 1, "it reached a server before the join was answered")
					replies.Release()
					require.ErrorIs(t, <-committed, ErrDeleted)
					require.Equal(t, "old", s.data("/state"))
					require.ErrorIs(t, claim.Check(t.Context()), ErrDeleted)
					require.NoError(t, (<-joining).err)
				})
			})
		}
	}
}

// committing commits a change of /state under the claim.
func committing(ctx context.Context, claim *Claim) <-chan error {
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
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/state", "old")
		queue := newQueue(t, s.connect(s.options()), nil)
		first, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), first))
		early := s.Intercept(zktest.Rule{When: isJoin, Times: 1, Hold: zktest.ToServer}) // until the other is sent
		replies := s.Intercept(zktest.Rule{When: isJoin, Skip: 1, Times: 1, Hold: zktest.ToClient, Before: func(zktest.Request) {
			time.Sleep(time.Millisecond) // until the first is answered
			s.recreate(parentMark, first.place.member.sequence+1)
		}})
		joining := []<-chan granted{claiming(t.Context(), queue), claiming(t.Context(), queue)}
		time.Sleep(time.Millisecond)
		early.Release()
		time.Sleep(10 * time.Millisecond)
		require.Len(t, s.seen(isJoin), 3)
		var claim *Claim
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
		require.ErrorIs(t, <-committed, ErrDeleted)
		require.Equal(t, "old", s.data("/state"))
	})
}

// Under the guard of a node that stands in the same life of the parent names are
// plain, and their order says who is ahead.
func TestJoinBesideANodeOfItsSessionChecksItAndHasAPlainName(t *testing.T) {
	for _, data := range []string{parentMark, "theirs"} {
		bubble(t, func(t *testing.T) {
			s := newEnsemble(t)
			parent := s.create("/l", data)
			queue := newQueue(t, s.connect(s.options()), nil)
			first, err := queue.Claim(t.Context())
			require.NoError(t, err)
			var waiting []<-chan granted
			for range 3 {
				waiting = append(waiting, claiming(t.Context(), queue))
				synctest.Wait()
			}
			joins := s.seen(isJoin)
			require.Len(t, joins, 4, data)
			before := first.Path()
			for i, r := range joins[1:] {
				require.Equal(t, zktest.Request{Op: "check", Path: before}, r.Ops[0], data)
				before = fmt.Sprintf("/l/%s%010d", namePrefix(parent, ""), i+1)
				require.Contains(t, s.queue(), before, data)
			}
			require.NoError(t, queue.Release(t.Context(), first))
			for _, result := range waiting {
				g := <-result
				require.NoError(t, g.err)
				require.NoError(t, queue.Release(t.Context(), g.claim))
			}
		})
	}
}

func TestJoinWhoseWitnessIsMissedIsMadeOnceMoreWithoutOne(t *testing.T) {
	for _, data := range []string{parentMark, "theirs"} {
		for _, released := range []bool{true, false} {
			bubble(t, func(t *testing.T) {
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
						first.session.BeginDelete(first.place.Node)
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
					require.ErrorIs(t, first.Err(), ErrDeleted)
					require.Equal(t, before+1, reads(), "it may be another parent")
				}
				first.session.MarkGone(first.place.Node)
				require.Equal(t, 1, client.OutstandingNodes())
			})
		}
	}
}

// The create happened under the parent of the checked node, or not at all.
func TestLostReplyOfAJoinBesideANodeOfItsSessionIsFoundAgain(t *testing.T) {
	for _, data := range []string{parentMark, "theirs"} {
		for _, v := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
			bubble(t, func(t *testing.T) {
				s := newEnsemble(t)
				s.create("/l", data)
				client := s.connect(s.options())
				queue := newQueue(t, client, nil)
				first, err := queue.Claim(t.Context())
				require.NoError(t, err)
				s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: v})
				joining := claiming(t.Context(), queue)
				requireWaiting(t, joining, "another contender is ahead")
				time.Sleep(testTimeout / 2)
				require.Len(t, s.queue(), 2)
				require.NoError(t, queue.Release(t.Context(), first))
				g := <-joining
				require.NoError(t, g.err)
				require.NoError(t, queue.Release(t.Context(), g.claim))
				require.Empty(t, s.queue())
				require.Zero(t, client.OutstandingNodes())
			})
		}
	}
}

// Its numbers have begun anew: the node's is lower than those that were seen.
func TestLostReplyOfCreateBelowARecreatedParentIsFoundAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		for range 5 {
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.NoError(t, queue.Release(t.Context(), claim))
		}
		s.delete("/l")
		parent := s.create("/l", parentMark)
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

func TestCommitIsOneTransactionWithACheckOfTheClaimsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/state", "old")
		client := s.connect(s.options())
		claim := claimed(t, client)
		_, err := claim.Commit(t.Context(), setState("new"))
		require.NoError(t, err)
		require.Equal(t, "new", s.data("/state"))

		s.delete(claim.Path())
		_, err = claim.Commit(t.Context(), setState("stale"))
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, ErrDeleted)
		require.Equal(t, "new", s.data("/state"))
	})
}

func TestCommitWhoseReplyIsLostIsUncertain(t *testing.T) {
	for _, v := range []zktest.Direction{zktest.ToClient, zktest.ToServer} {
		bubble(t, func(t *testing.T) {
			s := newEnsemble(t)
			s.create("/state", "old")
			client := s.connect(s.options())
			claim := claimed(t, client)
			s.Intercept(zktest.Rule{When: isCommit, Lose: v})
			_, err := claim.Commit(t.Context(), setState("new"))
			require.ErrorIs(t, err, ErrUncertain)
			require.NoError(t, claim.Err())
		})
	}
}

func TestReleaseWhoseReplyIsLostHasReleased(t *testing.T) {
	for _, v := range []zktest.Direction{zktest.ToClient, zktest.ToServer} {
		bubble(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			claim := claimed(t, client)
			s.Intercept(zktest.Rule{Op: "delete", Times: 1, Lose: v})
			queue := newQueue(t, client, nil)
			require.NoError(t, queue.Release(t.Context(), claim))
			require.ErrorIs(t, claim.Err(), ErrReleased)
			require.Empty(t, s.queue())
			require.Zero(t, client.OutstandingNodes())
			require.NoError(t, queue.Release(t.Context(), claim), "again, the first result")
		})
	}
}

func TestReleaseThatCannotReachAServerGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, &QueueOptions{ReleaseTimeout: 2 * time.Second})
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		s.detach()
		synctest.Wait()
		began := time.Now()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = queue.Release(ended, claim)
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorContains(t, err, claim.Path())
		require.Equal(t, 2*time.Second, time.Since(began), "its own bound counts, and not that of a ctx that is done")
		require.True(t, closed(claim.Done()))
		require.Equal(t, 1, client.OutstandingNodes())
		s.heal()
		time.Sleep(2 * time.Second)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestReleaseThatTheCloseOvertakesWhileCutOffIsUncertain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		late, err := NewQueue(client, "/late", nil)
		require.NoError(t, err)
		other, err := late.Claim(t.Context())
		require.NoError(t, err)
		s.detach()
		synctest.Wait()
		result := make(chan error, 1)
		go func() { result <- queue.Release(t.Context(), claim) }()
		synctest.Wait()
		client.Close()
		err = <-result
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, ErrClosed)
		require.NotContains(t, err.Error(), "background")
		err = late.Release(t.Context(), other)
		require.ErrorIs(t, err, ErrLost, "one that begins later")
		require.ErrorIs(t, err, ErrClosed)
		s.heal()
	})
}

func setState(data string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: "/state", Data: []byte(data), Version: -1}
}

func TestStuckCounterStillExcludesAndStillServes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", parentMark)
		require.NoError(t, s.PlantCounter("/l", math.MaxInt32-3))
		holders, served := 0, 0
		var tokens []int64
		var wg sync.WaitGroup
		for range 4 {
			queue := newQueue(t, s.connect(s.options()), nil)
			for range 5 {
				wg.Go(func() {
					claim, err := queue.Claim(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					holders++
					if holders > 1 {
						t.Error("two claims overlap")
					}
					tokens = append(tokens, int64(claim.Token()))
					time.Sleep(time.Second)
					holders--
					served++
					if err := queue.Release(t.Context(), claim); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		require.Equal(t, 20, served)
		require.True(t, slices.IsSorted(tokens), "%v", tokens)
		require.Len(t, slices.Compact(tokens), 20)
		require.Empty(t, s.queue())
	})
}

// The first plain name that is given such a number has to be given up again.
func TestLateNumberNeverStandsAloneInTheNameOfAContender(t *testing.T) {
	for name, v := range map[string]zktest.Direction{"answered": 0, "reply lost": zktest.ToClient} {
		bubble(t, func(t *testing.T) {
			s := newEnsemble(t)
			parent := s.create("/l", parentMark)
			require.NoError(t, s.PlantCounter("/l", overflowSequence-2))
			queue := newQueue(t, s.connect(s.options()), nil)
			first, err := queue.Claim(t.Context())
			require.NoError(t, err)
			var waiting []<-chan granted
			for range 3 {
				s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: v})
				waiting = append(waiting, claiming(t.Context(), queue))
				time.Sleep(testTimeout / 2)
			}
			require.Len(t, s.queue(), 4, name)
			require.NoError(t, queue.Release(t.Context(), first))
			for i, result := range waiting {
				g := <-result
				require.NoError(t, g.err)
				plain := fmt.Sprintf("/l/%s%010d", namePrefix(parent, ""), g.claim.place.member.sequence)
				require.Equal(t, i > 0, g.claim.place.member.overflowed(), name)
				require.Equal(t, i > 0, g.claim.Path() != plain, "%s: %s", name, g.claim.Path())
				require.NoError(t, queue.Release(t.Context(), g.claim))
			}
			require.Empty(t, s.queue(), name)
		})
	}
}

func TestLostReplyOfCreateAtTheStuckCounterIsFoundAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", parentMark)
		require.NoError(t, s.PlantCounter("/l", math.MaxInt32))
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		for range 3 {
			s.Intercept(zktest.Rule{When: isJoin, Times: 1, Lose: zktest.ToClient})
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{claim.Path()}, s.queue())
			require.Equal(t, 1, client.OutstandingNodes())
			require.NoError(t, queue.Release(t.Context(), claim))
			require.Empty(t, s.queue())
		}
	})
}

func TestParentWithDataOfOthersIsNotWritten(t *testing.T) {
	for name, v := range map[string]zktest.Direction{"answered": 0, "reply lost": zktest.ToClient, "request lost": zktest.ToServer} {
		bubble(t, func(t *testing.T) {
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

func TestOwnNodeThatCannotBeReadBeforeCtxEndsIsGoneOnceTheSessionIsServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", "theirs")
		client := s.connect(s.options())
		id := client.SessionID()
		s.Intercept(zktest.Rule{Op: "getData", Below: "/l", Times: 1, Before: func(zktest.Request) { s.refuse(3 * time.Second) }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, s.queue(), 1, "no server is there to take it away")
		require.Equal(t, 1, client.OutstandingNodes())
		time.Sleep(testTimeout / 2)
		require.Equal(t, id, client.SessionID())
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestOwnNodeThatMayNotBeReadIsAnErrorAndGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
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

func TestTryOfAHeldLineCreatesNothingCostsTwoReadsAndNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		holding := newQueue(t, client, &QueueOptions{Owner: "pod-7"})
		claim, err := holding.Try(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		before := len(s.seen(anyRequest))
		_, err = newQueue(t, client, nil).Try(t.Context())
		var busy *BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, "/l", busy.Path)
		require.Equal(t, "pod-7", busy.Front.Owner)
		require.Equal(t, claim.Token(), busy.Front.Token)
		require.ErrorContains(t, err, `/l is held by "pod-7"`)
		asked := s.seen(anyRequest)[before:]
		require.Len(t, asked, 2)
		for _, r := range asked {
			require.Contains(t, []string{"getData", "getChildren2"}, r.Op)
		}
		require.NoError(t, holding.Release(t.Context(), claim))
		again, err := newQueue(t, client, nil).Try(t.Context())
		require.NoError(t, err)
		require.NoError(t, holding.Release(t.Context(), again))
	})
}

func TestTryThatLosesTheRaceLeavesNoNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newEnsemble(t)
		s.create("/l", parentMark)
		client := s.connect(s.options())
		queue := newQueue(t, client, nil)
		s.Intercept(zktest.Rule{When: isJoin, Before: func(zktest.Request) { // after the listing
			s.create(another, "pod-9")
		}})
		_, err := queue.Try(t.Context())
		var busy *BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, "pod-9", busy.Front.Owner)
		require.Equal(t, []string{another}, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}
