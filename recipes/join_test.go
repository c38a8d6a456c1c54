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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// once gives the first request that creates a contender another verdict.
func once(v verdict) func(stubRequest) verdict {
	given := false
	return func(r stubRequest) verdict {
		if r.creates() && !given {
			given = true
			return v
		}
		return answer
	}
}

type recovery struct {
	found bool
	err   error
}

// recovering returns options whose trace records the outcome of each recovered create.
func recovering(s *stub) (opts *Options, found *[]recovery) {
	found = new([]recovery)
	opts = s.options()
	opts.Trace = &Trace{Recovered: func(_ string, ok bool, err error) { *found = append(*found, recovery{ok, err}) }}
	return opts, found
}

func TestUncontendedClaimOfAKnownPathTakesOneRequestAndItsReleaseAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, nil)
		ops := func() int {
			synctest.Wait()
			return len(s.seen(func(r stubRequest) bool { return !r.heartbeat() && r.op != opPing }))
		}
		for i := range 10 {
			before := ops()
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.Equal(t, s.node(claim.Path()).czxid, int64(claim.Token()))
			require.NoError(t, queue.Release(t.Context(), claim))
			if i > 0 {
				require.Equal(t, 2, ops()-before)
			}
		}
	})
}

func TestLostReplyOfCreateIsFoundAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		opts, recovered := recovering(s)
		client := s.connect(t, opts)
		s.on(once(cutAfter))
		claim := claimed(t, client)
		require.Equal(t, []string{claim.Path()}, s.queue(), "one node, and it is the claim's")
		require.Equal(t, s.node(claim.Path()).czxid, int64(claim.Token()))
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
		s := newStub(t)
		opts, recovered := recovering(s)
		client := s.connect(t, opts)
		s.on(once(cutBefore))
		claim := claimed(t, client)
		require.Equal(t, []string{claim.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
		synctest.Wait()
		require.Equal(t, []recovery{{found: false}}, *recovered)
	})
}

func TestLostReplyOfCreateBehindOthersIsFoundAgainAndWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", parentMark)
		s.make("/l/another-lock-0000000000", "")
		client := s.connect(t, s.options())
		s.on(once(cutAfter))
		result := claiming(t.Context(), newQueue(t, client, nil))
		time.Sleep(time.Minute)
		requireWaiting(t, result, "another contender is ahead")
		require.Len(t, s.queue(), 2)
		s.delete("/l/another-lock-0000000000")
		require.NoError(t, (<-result).err)
	})
}

func TestCreateThatIsAnsweredAfterItsCallerGaveUpLeavesNoNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		slowly(s, stubRequest.creates)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		require.Len(t, s.seen(stubRequest.creates), 1)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
		require.Len(t, s.seen(isConnect), 1)
	})
}

// The cause of a context can be any error, also a server's answer to another request.
func TestCauseThatLooksLikeAServersAnswerIsNotTakenForOne(t *testing.T) {
	for _, answer := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth, session.NotSent(io.EOF)} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			client := s.connect(t, s.options())
			slowly(s, stubRequest.creates)
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := fmt.Errorf("worker: %w", answer)
			time.AfterFunc(time.Second/2, func() { cancel(cause) })
			_, err := newQueue(t, client, nil).Claim(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
			require.Len(t, s.seen(stubRequest.creates), 1, "%v", cause)
			time.Sleep(2 * time.Second)
			require.Empty(t, s.queue(), "%v", cause)
			require.Zero(t, client.OutstandingNodes())
		})
	}
}

// slowly delays the stub's answers to the wanted requests by a second, too short for the
// session to leave the server.
func slowly(s *stub, want func(stubRequest) bool) {
	s.on(func(r stubRequest) verdict {
		if want(r) {
			time.Sleep(time.Second)
		}
		return answer
	})
}

// A code that the client has no name for can be that of a quota.
func TestCreateThatIsAnsweredWithACodeWithoutANameFailsOnce(t *testing.T) {
	for _, parent := range []string{parentMark, "theirs"} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			s.make("/l", parent)
			client := s.connect(t, s.options())
			s.on(func(r stubRequest) verdict {
				if r.creates() && len(s.seen(stubRequest.creates)) < 100 {
					return puzzle
				}
				return answer
			})
			_, err := newQueue(t, client, nil).Claim(t.Context())
			require.ErrorContains(t, err, "-125", parent)
			require.Len(t, s.seen(stubRequest.creates), 1, parent)
			require.Empty(t, s.queue(), parent)
			require.Zero(t, client.OutstandingNodes(), parent)
		})
	}
}

func TestCreateThatIsNeverAnsweredLeavesNoNode(t *testing.T) {
	for name, v := range map[string]verdict{"carried out": lose, "not carried out": ignore} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			client := s.connect(t, s.options())
			s.on(once(v))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			began := time.Now()
			_, err := newQueue(t, client, nil).Claim(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.LessOrEqual(t, time.Since(began), time.Second/2+stubTimeout, "the release timeout bounds what it still does")
			time.Sleep(stubTimeout)
			require.Empty(t, s.queue(), name)
			require.Zero(t, client.OutstandingNodes(), name)
		})
	}
}

func TestNodeOfASessionThatExpiredWhileItsCreateWasInFlightIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		first := client.SessionID()
		s.on(func(r stubRequest) verdict {
			if r.creates() && r.session == first {
				s.expire(first)
				return cutBefore
			}
			return answer
		})
		claim := claimed(t, client)
		require.NotEqual(t, first, client.SessionID())
		require.Equal(t, []string{claim.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
		require.Empty(t, s.seen(func(r stubRequest) bool { return r.op == opDelete }), "nothing is deleted by name in another session")
	})
}

func TestJoinBelowARecreatedParentIsNoGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), claim))
		s.delete("/l")
		parent := s.make("/l", parentMark) // in its next life
		again, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, claim.Path(), again.Path())
		require.Contains(t, again.Path(), "/l/"+strconv.FormatInt(parent, 36)+"-")
		require.Equal(t, []string{again.Path()}, s.queue(), "the node with the old tag is gone")
	})
}

func TestClaimIsNotifiedImmediatelyWhenAJoinOfItsClientMissesItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		s.delete(claim.Path())
		s.delete("/l")
		s.make("/l", parentMark) // in its next life, with numbers from 0 on
		again, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, claim.Err(), ErrDeleted)
		require.NotEqual(t, claim.Path(), again.Path())
		time.Sleep(stubTimeout)
		require.NoError(t, again.Err())
		require.Equal(t, []string{again.Path()}, s.queue())
		require.Equal(t, 1, client.OutstandingNodes())
	})
}

// recreate deletes the parent with everything below it, as an operator does, and
// makes it again, with that many numbers given out already.
func (s *stub) recreate(data string, numbers int32) {
	for _, path := range s.queue() {
		s.delete(path)
	}
	s.delete("/l")
	s.make("/l", data)
	s.count(numbers)
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
					s := newStub(t)
					s.make("/state", "old")
					s.make("/l", data)
					own := newQueue(t, s.connect(t, s.options()), nil)
					other := newQueue(t, s.connect(t, s.options()), nil)
					for _, queue := range []*Queue{own, other} {
						claim, err := queue.Claim(t.Context())
						require.NoError(t, err)
						require.NoError(t, queue.Release(t.Context(), claim))
					}
					claim, err := own.Claim(t.Context())
					require.NoError(t, err)
					s.recreate(data, claim.place.member.sequence)
					s.on(once(lose))
					joining := claiming(t.Context(), joiner(own, other))
					synctest.Wait()
					_, err = claim.Commit(t.Context(), setState("stale"))
					require.ErrorIs(t, err, ErrDeleted)
					require.Equal(t, "old", string(s.node("/state").data))
					require.ErrorIs(t, claim.Check(t.Context()), ErrDeleted)
					require.NoError(t, (<-joining).err)
				})
			})
		}
	}
}

// Two joins of one session are sent before either is answered. The parent is
// deleted and made again between them.
func TestLostClaimCommitsNothingWhileAJoinThatWasSentWithItsOwnIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/state", "old")
		queue := newQueue(t, s.connect(t, s.options()), nil)
		first, err := queue.Claim(t.Context())
		require.NoError(t, err)
		require.NoError(t, queue.Release(t.Context(), first))
		var joins atomic.Int32
		s.on(func(r stubRequest) verdict {
			if !r.creates() {
				return answer
			}
			switch joins.Add(1) {
			case 1:
				time.Sleep(time.Millisecond) // until the other is sent
			case 2:
				time.Sleep(time.Millisecond) // until the first is answered
				s.recreate(parentMark, first.place.member.sequence+1)
				return lose
			}
			return answer
		})
		joining := []<-chan granted{claiming(t.Context(), queue), claiming(t.Context(), queue)}
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, int32(2), joins.Load())
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
		_, err = claim.Commit(t.Context(), setState("stale"))
		require.ErrorIs(t, err, ErrDeleted)
		require.Equal(t, "old", string(s.node("/state").data))
	})
}

// Under the guard of a node that stands in the same life of the parent names are
// plain, and their order says who is ahead.
func TestJoinBesideANodeOfItsSessionChecksItAndHasAPlainName(t *testing.T) {
	for _, data := range []string{parentMark, "theirs"} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			parent := s.make("/l", data)
			queue := newQueue(t, s.connect(t, s.options()), nil)
			first, err := queue.Claim(t.Context())
			require.NoError(t, err)
			var waiting []<-chan granted
			for range 3 {
				waiting = append(waiting, claiming(t.Context(), queue))
				synctest.Wait()
			}
			joins := s.seen(stubRequest.creates)
			require.Len(t, joins, 4, data)
			before := first.Path()
			for i, r := range joins[1:] {
				require.Equal(t, stubOp{kind: opCheck, path: before}, r.ops[0], data)
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
				s := newStub(t)
				s.make("/l", data)
				client := s.connect(t, s.options())
				queue := newQueue(t, client, nil)
				first, err := queue.Claim(t.Context())
				require.NoError(t, err)
				reads := func() int {
					return len(s.seen(func(r stubRequest) bool { return r.op == opGetData && r.ops[0].path == "/l" }))
				}
				before := reads()
				s.on(func(r stubRequest) verdict {
					if r.creates() && len(s.seen(stubRequest.creates)) == 2 {
						if released {
							first.session.BeginDelete(first.place.Node)
						}
						s.delete(first.Path())
					}
					return answer
				})
				joining := claiming(t.Context(), queue)
				synctest.Wait()
				g := <-joining
				require.NoError(t, g.err)
				require.Len(t, s.seen(stubRequest.creates), 3, "once more, and no oftener")
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
		for _, v := range []verdict{cutBefore, cutAfter} {
			bubble(t, func(t *testing.T) {
				s := newStub(t)
				s.make("/l", data)
				client := s.connect(t, s.options())
				queue := newQueue(t, client, nil)
				first, err := queue.Claim(t.Context())
				require.NoError(t, err)
				s.on(once(v))
				joining := claiming(t.Context(), queue)
				requireWaiting(t, joining, "another contender is ahead")
				time.Sleep(stubTimeout / 2)
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
		s := newStub(t)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, nil)
		for range 5 {
			claim, err := queue.Claim(t.Context())
			require.NoError(t, err)
			require.NoError(t, queue.Release(t.Context(), claim))
		}
		s.delete("/l")
		parent := s.make("/l", parentMark)
		s.on(once(cutAfter))
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
		s := newStub(t)
		s.make("/state", "old")
		client := s.connect(t, s.options())
		claim := claimed(t, client)
		_, err := claim.Commit(t.Context(), setState("new"))
		require.NoError(t, err)
		require.Equal(t, "new", string(s.node("/state").data))

		s.delete(claim.Path())
		_, err = claim.Commit(t.Context(), setState("stale"))
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, ErrDeleted)
		require.Equal(t, "new", string(s.node("/state").data))
	})
}

func TestCommitWhoseReplyIsLostIsUncertain(t *testing.T) {
	for _, v := range []verdict{cutAfter, cutBefore} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			s.make("/state", "old")
			client := s.connect(t, s.options())
			claim := claimed(t, client)
			s.on(func(r stubRequest) verdict {
				if r.op == opMulti && !r.heartbeat() {
					return v
				}
				return answer
			})
			_, err := claim.Commit(t.Context(), setState("new"))
			require.ErrorIs(t, err, ErrUncertain)
			require.NoError(t, claim.Err())
		})
	}
}

func TestReleaseWhoseReplyIsLostHasReleased(t *testing.T) {
	for _, v := range []verdict{cutAfter, cutBefore} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			client := s.connect(t, s.options())
			claim := claimed(t, client)
			given := false
			s.on(func(r stubRequest) verdict {
				if r.op == opDelete && !given {
					given = true
					return v
				}
				return answer
			})
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
		s := newStub(t)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, &QueueOptions{ReleaseTimeout: 2 * time.Second})
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		s.cut()
		s.hangUp(0)
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
		s.mend()
		time.Sleep(2 * time.Second)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestReleaseThatTheCloseOvertakesWhileCutOffIsUncertain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, nil)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		late, err := NewQueue(client, "/late", nil)
		require.NoError(t, err)
		other, err := late.Claim(t.Context())
		require.NoError(t, err)
		s.cut()
		s.hangUp(0)
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
		s.mend()
	})
}

func setState(data string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: "/state", Data: []byte(data), Version: -1}
}

func TestStuckCounterStillExcludesAndStillServes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", parentMark)
		s.count(math.MaxInt32 - 3)
		holders, served := 0, 0
		var tokens []int64
		var wg sync.WaitGroup
		for range 4 {
			queue := newQueue(t, s.connect(t, s.options()), nil)
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
	for name, v := range map[string]verdict{"answered": answer, "reply lost": cutAfter} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			parent := s.make("/l", parentMark)
			s.count(overflowSequence - 2)
			queue := newQueue(t, s.connect(t, s.options()), nil)
			first, err := queue.Claim(t.Context())
			require.NoError(t, err)
			var waiting []<-chan granted
			for range 3 {
				s.on(once(v))
				waiting = append(waiting, claiming(t.Context(), queue))
				time.Sleep(stubTimeout / 2)
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
		s := newStub(t)
		s.make("/l", parentMark)
		s.count(math.MaxInt32)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, nil)
		for range 3 {
			s.on(once(cutAfter))
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
	for name, v := range map[string]verdict{"answered": answer, "reply lost": cutAfter, "request lost": cutBefore} {
		bubble(t, func(t *testing.T) {
			s := newStub(t)
			s.make("/l", "theirs")
			s.make("/l/_c_0123456789abcdef-lock-0000000000", "10.0.0.7") // Curator's
			client := s.connect(t, s.options())
			s.on(once(v))
			result := claiming(t.Context(), newQueue(t, client, nil))
			time.Sleep(time.Minute)
			requireWaiting(t, result, "they are ahead")
			s.delete("/l/_c_0123456789abcdef-lock-0000000000")
			g := <-result
			require.NoError(t, g.err, name)
			require.Equal(t, "theirs", string(s.node("/l").data))
			require.Equal(t, []string{g.claim.Path()}, s.queue(), name)
			require.Equal(t, s.node(g.claim.Path()).czxid, int64(g.claim.Token()))
			require.Equal(t, 1, client.OutstandingNodes())
		})
	}
}

// readsOwn reports whether it reads a contender, and not the parent.
func readsOwn(r stubRequest) bool { return r.op == opGetData && r.ops[0].path != "/l" }

func TestOwnNodeThatCannotBeReadBeforeCtxEndsIsGoneOnceTheSessionIsServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", "theirs")
		client := s.connect(t, s.options())
		id := client.SessionID()
		s.on(func(r stubRequest) verdict {
			if readsOwn(r) {
				s.refuse(3 * time.Second)
				return cutBefore
			}
			return answer
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, s.queue(), 1, "no server is there to take it away")
		require.Equal(t, 1, client.OutstandingNodes())
		s.on(func(stubRequest) verdict { return answer })
		time.Sleep(stubTimeout / 2)
		require.Equal(t, id, client.SessionID())
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestOwnNodeThatMayNotBeReadIsAnErrorAndGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", "theirs")
		client := s.connect(t, s.options())
		s.on(func(r stubRequest) verdict {
			if readsOwn(r) {
				return forbid
			}
			return answer
		})
		_, err := newQueue(t, client, nil).Claim(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Len(t, s.seen(stubRequest.creates), 1)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestTryOfAHeldLineCreatesNothingCostsTwoReadsAndNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		client := s.connect(t, s.options())
		holding := newQueue(t, client, &QueueOptions{Owner: "pod-7"})
		claim, err := holding.Try(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		before := len(s.seen(func(stubRequest) bool { return true }))
		_, err = newQueue(t, client, nil).Try(t.Context())
		var busy *BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, "/l", busy.Path)
		require.Equal(t, "pod-7", busy.Front.Owner)
		require.Equal(t, claim.Token(), busy.Front.Token)
		require.ErrorContains(t, err, `/l is held by "pod-7"`)
		asked := s.seen(func(stubRequest) bool { return true })[before:]
		require.Len(t, asked, 2)
		for _, r := range asked {
			require.Contains(t, []int32{opGetData, opGetChildren}, r.op)
		}
		require.NoError(t, holding.Release(t.Context(), claim))
		again, err := newQueue(t, client, nil).Try(t.Context())
		require.NoError(t, err)
		require.NoError(t, holding.Release(t.Context(), again))
	})
}

func TestTryThatLosesTheRaceLeavesNoNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", parentMark)
		client := s.connect(t, s.options())
		queue := newQueue(t, client, nil)
		s.on(func(r stubRequest) verdict {
			if r.creates() { // another contender joins between the listing and the create
				s.make("/l/another-lock-0000000000", "pod-9")
			}
			return answer
		})
		_, err := queue.Try(t.Context())
		var busy *BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, "pod-9", busy.Front.Owner)
		require.Equal(t, []string{"/l/another-lock-0000000000"}, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}
