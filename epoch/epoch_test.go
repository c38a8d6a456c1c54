// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTermsCountWithoutGapsAndAnybodyReadsWhoseTheNewestIs(t *testing.T) {
	bubble(t, func(s *stage) {
		reader, err := epoch.New(s.connect(s.ensemble.Link(), ""), path, nil)
		require.NoError(s, err)
		_, err = reader.Current(s.Context())
		require.ErrorIs(s, err, epoch.ErrNone)
		require.ErrorContains(s, err, path)

		var token fencing.Token
		candidates := []*candidate{s.candidate("a"), s.candidate("b")}
		for number := int64(1); number <= 4; number++ {
			leader := candidates[number%2]
			term, e := leader.lead()
			require.Equal(s, number, e.Number())
			newest, err := reader.Current(s.Context())
			require.NoError(s, err)
			require.Equal(s, epoch.Record{
				Number: number, Token: term.Token(), ID: term.ID(), Node: term.Path(), Since: newest.Since,
			}, newest)
			require.WithinDuration(s, time.Now(), newest.Since, time.Second)
			require.Greater(s, newest.Token, token)
			token = newest.Token
			require.NoError(s, term.Resign(s.Context()))
		}
	})
}

func TestClaimingTwiceInOneTermIsOneEpoch(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term := a.campaign()
		numbers := make(chan int64, 8)
		for range cap(numbers) {
			go func() {
				e, err := a.epochs.Claim(s.Context(), term.Claim)
				if err == nil {
					_, err = e.Commit(s.Context(), set("a"))
				}
				if err != nil {
					s.Error(err)
				}
				numbers <- e.Number()
			}()
		}
		for range cap(numbers) {
			require.Equal(s, int64(1), <-numbers)
		}
		_, before, err := s.ensemble.Get(path)
		require.NoError(s, err)
		again, err := epoch.New(a.Client, path, nil)
		require.NoError(s, err)
		e, err := again.Claim(s.Context(), term.Claim)
		require.NoError(s, err)
		require.Equal(s, int64(1), e.Number())
		_, err = e.Commit(s.Context(), set("again"))
		require.NoError(s, err)
		_, after, err := s.ensemble.Get(path)
		require.NoError(s, err)
		require.Equal(s, before, after)
	})
}

func TestLateWriteOfAnOlderLeaderFailsAsAWholeAndNamesBothEpochs(t *testing.T) {
	bubble(t, func(s *stage) {
		a, b := s.candidate("a"), s.candidate("b")
		_, first := a.lead()
		_, err := first.Commit(s.Context(), set("a"))
		require.NoError(s, err)

		a.link.Hold(zktest.Both)
		term, second := b.lead()
		_, err = second.Commit(s.Context(), set("b"))
		require.NoError(s, err)
		a.link.Release()

		_, err = first.Commit(s.Context(), create("/late"), set("late"))
		s.requireStale(err, 1, 2)
		stale := s.stale(err)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorContains(s, err, `that of "b"`)
		require.Equal(s, term.Token(), stale.Newest.Token)
		require.Less(s, stale.Token, stale.Newest.Token)
		s.requireState("b")
		_, _, err = s.ensemble.Get("/late")
		require.ErrorIs(s, err, zktest.ErrNoNode)
	})
}

func TestTermThatIsLostAndHasNoSuccessorIsNotStale(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term, e := a.lead()
		require.NoError(s, term.Resign(s.Context()))
		_, err := e.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorIs(s, err, recipes.ErrReleased)
		require.NotErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 1")
		s.requireState("none")

		began := time.Now()
		a.link.Hold(zktest.Both)
		_, err = e.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, recipes.ErrLost)
		require.LessOrEqual(s, time.Since(began), timeout/8, "to name a successor is not worth a longer wait")
		a.link.Release()
	})
}

// Two elections that share one path: the own node of each is there, and the epoch decides.
func TestLeaderWhoIsSupersededWhileItsNodeLivesWritesNothing(t *testing.T) {
	bubble(t, func(s *stage) {
		a, b := s.candidate("a"), s.candidateAt("b", "/election/other")
		aTerm, first := a.lead()
		bTerm, second := b.lead()
		_, err := second.Commit(s.Context(), set("b"))
		require.NoError(s, err)

		_, err = first.Commit(s.Context(), set("a"))
		s.requireStale(err, 1, 2)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.NotErrorIs(s, err, recipes.ErrLost)
		require.NoError(s, aTerm.Err())
		s.requireState("b")

		e, err := a.epochs.Claim(s.Context(), aTerm.Claim)
		require.NoError(s, err)
		require.Equal(s, first, e, "one term has one epoch")
		others, err := epoch.New(a.Client, path, nil)
		require.NoError(s, err)
		_, err = others.Claim(s.Context(), aTerm.Claim)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, fmt.Sprintf("no epoch of %s for token %v", path, aTerm.Token()))
		require.ErrorContains(s, err, `epoch 2 is that of "b"`)

		require.NoError(s, aTerm.Resign(s.Context()))
		_, third := a.lead()
		require.Equal(s, int64(3), third.Number())
		_, err = second.Commit(s.Context(), set("b again"))
		s.requireStale(err, 2, 3)
		require.NoError(s, bTerm.Err())
	})
}

func TestNodeWrittenByHandEndsTheEpochAndTheCountGoesOnFromIt(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term, e := a.lead()
		same, _, err := s.ensemble.Get(path)
		require.NoError(s, err)

		require.NoError(s, s.ensemble.Set(path, same))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 1)
		require.ErrorContains(s, err, "written to by hand")

		require.NoError(s, s.ensemble.Set(path, []byte(`{"format":1,"epoch":41}`)))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 41)
		require.ErrorContains(s, err, "epoch 41 was written by hand")
		require.NoError(s, term.Resign(s.Context()))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 41)
		require.ErrorIs(s, err, recipes.ErrLost)
		s.requireState("none")

		term, e = a.lead()
		require.Equal(s, int64(42), e.Number())

		require.NoError(s, s.ensemble.Set(path, []byte("words")))
		_, err = e.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, `epoch 42`)
		require.ErrorContains(s, err, `what is not an epoch: "words"`)
		require.NoError(s, s.ensemble.Set(path, nil))
		_, err = e.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "was emptied")
		require.NoError(s, term.Err())
		s.requireState("none")
	})
}

// The new epoch 1 has the number and the version of the old one, whose leader is told apart by its own node.
func TestNodeDeletedByHandEndsTheEpochAndTheCountBeginsAnew(t *testing.T) {
	bubble(t, func(s *stage) {
		a, b := s.candidate("a"), s.candidate("b")
		_, old := a.lead()
		require.NoError(s, s.ensemble.Delete(path))
		_, err := old.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 1 of "+path)
		require.ErrorContains(s, err, "its node was deleted")

		a.link.Hold(zktest.Both)
		_, e := b.lead()
		require.Equal(s, int64(1), e.Number())
		_, err = e.Commit(s.Context(), set("b"))
		require.NoError(s, err)
		a.link.Release()
		_, err = old.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 1)
		stale := s.stale(err)
		require.ErrorIs(s, err, recipes.ErrLost)
		require.Less(s, stale.Token, stale.Newest.Token)
		s.requireState("b")
	})
}

// The versions of a node that is made again begin anew: one of them is that which the leader checks.
func TestNodeMadeAgainByHandMayPassForTheOldOneUntilTheTermEnds(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term, e := a.lead()
		require.NoError(s, s.ensemble.Delete(path))
		require.NoError(s, s.ensemble.Create(path, []byte(`{"format":1,"epoch":41}`)))
		_, err := e.Commit(s.Context(), set("a"))
		require.NoError(s, err, "what the documentation warns of")

		require.NoError(s, s.ensemble.Set(path, []byte(`{"format":1,"epoch":41}`)))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 41)
		require.NoError(s, term.Resign(s.Context()))
		_, next := a.lead()
		require.Equal(s, int64(42), next.Number())
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 42)
		s.requireState("a")
	})
}

func TestClaimCutAtAnyFrameIsOneEpochOrNone(t *testing.T) {
	for _, after := range []bool{false, true} {
		sprung := true
		for n := 1; sprung; n++ {
			t.Run(fmt.Sprintf("frame %d, after %v", n, after), func(t *testing.T) {
				bubble(t, func(s *stage) {
					a := s.candidate("a")
					term := a.campaign()
					cut := a.link.CutBefore
					if after {
						cut = a.link.CutAfter
					}
					trap := cut(n)
					e, err := a.epochs.Claim(s.Context(), term.Claim)
					sprung = trap.Sprung()
					require.NoError(s, err)
					require.Equal(s, int64(1), e.Number())
					_, err = e.Commit(s.Context(), set("a"))
					if !errors.Is(err, recipes.ErrUncertain) { // it came to that frame in the place of the claim
						require.NoError(s, err)
					}
					require.NoError(s, term.Resign(s.Context()))
					_, e = a.lead()
					require.Equal(s, int64(2), e.Number())
				})
			})
		}
	}
}

func TestClaimThatIsNotAnsweredIsUncertainAndFoundByTheNext(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term := a.campaign()
		time.Sleep(steady)
		const way = 50 * time.Millisecond
		a.link.Delay(way)
		// The read takes two ways, and the transaction is carried out after the third.
		ctx, cancel := context.WithTimeout(s.Context(), way*7/2)
		defer cancel()
		_, err := a.epochs.Claim(ctx, term.Claim)
		require.ErrorIs(s, err, recipes.ErrUncertain)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.ErrorContains(s, err, path)
		_, claimed, err := s.ensemble.Get(path)
		require.NoError(s, err)

		e, err := a.epochs.Claim(s.Context(), term.Claim)
		require.NoError(s, err)
		require.Equal(s, int64(1), e.Number())
		_, err = e.Commit(s.Context(), set("a"))
		require.NoError(s, err)
		_, found, err := s.ensemble.Get(path)
		require.NoError(s, err)
		require.Equal(s, claimed, found)
	})
}

// It may have been claimed, and then the operator has put an end to it.
func TestTermThatMayHaveHadAnEpochClaimsNoOtherAfterOneByHand(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term := a.campaign()
		time.Sleep(steady)
		const way = 50 * time.Millisecond
		a.link.Delay(way)
		ctx, cancel := context.WithTimeout(s.Context(), way*7/2)
		defer cancel()
		_, err := a.epochs.Claim(ctx, term.Claim)
		require.ErrorIs(s, err, recipes.ErrUncertain)
		require.NoError(s, s.ensemble.Set(path, []byte(`{"format":1,"epoch":2}`)))
		_, err = a.epochs.Claim(s.Context(), term.Claim)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 2 was written by hand")
		require.NoError(s, term.Resign(s.Context()))
		_, e := a.lead()
		require.Equal(s, int64(3), e.Number())
	})
}

// The epoch has been claimed, the session ends before the answer is looked for: what was not heard is not denied.
func TestClaimWhoseTermIsLostBeforeItsAnswerIsLookedForIsUncertain(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term := a.campaign()
		time.Sleep(steady)
		trap := a.link.CutAfter(2)
		go func() {
			for !trap.Sprung() {
				time.Sleep(time.Millisecond / 8)
			}
			a.link.Refuse(true)
		}()
		_, err := a.epochs.Claim(s.Context(), term.Claim)
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorIs(s, err, recipes.ErrUncertain)
		a.link.Refuse(false)
		_, second := s.candidate("b").lead()
		require.Equal(s, int64(2), second.Number())
	})
}

func TestCommitWhoseAnswerIsLostIsUncertain(t *testing.T) {
	for _, landed := range []bool{false, true} {
		bubble(t, func(s *stage) {
			a := s.candidate("a")
			_, e := a.lead()
			time.Sleep(steady)
			want, cut := "none", a.link.CutBefore
			if landed {
				want, cut = "a", a.link.CutAfter
			}
			trap := cut(1)
			_, err := e.Commit(s.Context(), set("a"))
			require.True(s, trap.Sprung())
			require.ErrorIs(s, err, recipes.ErrUncertain)
			require.NotErrorIs(s, err, fencing.ErrStale)
			require.ErrorContains(s, err, "commit in epoch 1")
			s.requireState(want)
			_, err = e.Commit(s.Context(), set("again"))
			require.NoError(s, err)
			s.requireState("again")
		})
	}
}

func TestRefusedOperationIsNamedAndNothingIsWritten(t *testing.T) {
	bubble(t, func(s *stage) {
		_, e := s.candidate("a").lead()
		responses, err := e.Commit(s.Context(), set("half"), create(state), create("/new"))
		require.ErrorIs(s, err, zk.ErrNodeExists)
		require.NotErrorIs(s, err, fencing.ErrStale)
		require.Len(s, responses, 3, "those of the caller's operations")
		require.ErrorIs(s, responses[1].Error, zk.ErrNodeExists)
		s.requireState("none")

		responses, err = e.Commit(s.Context(), set("whole"), create("/new"))
		require.NoError(s, err)
		require.Len(s, responses, 2)
		require.Equal(s, int32(1), responses[0].Stat.Version)
		require.Equal(s, "/new", responses[1].String)
		s.requireState("whole")

		responses, err = e.Commit(s.Context())
		require.NoError(s, err, "without operations it asks")
		require.Empty(s, responses)
	})
}

func TestOperationsOnTheEpochsNodeAreRefused(t *testing.T) {
	bubble(t, func(s *stage) {
		_, e := s.candidate("a").lead()
		for _, op := range []any{
			create(path), &zk.SetDataRequest{Path: path, Version: -1}, &zk.DeleteRequest{Path: path, Version: -1},
			&zk.CheckVersionRequest{Path: path, Version: -1},
		} {
			_, err := e.Commit(s.Context(), set("half"), op)
			require.ErrorContains(s, err, "operation 1 is on the epoch's own node")
			require.ErrorContains(s, err, path)
		}
		for _, nonsense := range []any{nil, "words", (*zk.SetDataRequest)(nil), zk.SetDataRequest{Path: path}} {
			_, err := e.Commit(s.Context(), set("half"), nonsense)
			require.ErrorContains(s, err, "commit in epoch 1", "%#v", nonsense)
			require.NotErrorIs(s, err, recipes.ErrUncertain, "%#v", nonsense)
		}
		s.requireState("none")
	})
}

func TestForeignNodeIsRefusedAndStaysAsItIs(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term := a.campaign()
		require.NoError(s, s.ensemble.Create(path, nil))
		for data, why := range map[string]string{
			"words":                   "what is not an epoch",
			"7":                       "what is not an epoch",
			"{}":                      "what is not an epoch",
			`{"format":2,"epoch":7}`:  "format 2",
			`{"format":1}`:            "epoch 0",
			`{"format":1,"epoch":-1}`: "epoch -1",
			`{"format":1,"epoch":9223372036854775807}`:  fmt.Sprint("epoch ", int64(math.MaxInt64)),
			`{"format":1,"epoch":7,"token":"-2"}`:       "what is not an epoch",
			`{"format":1,"epoch":99999999999999999999}`: "what is not an epoch",
			strings.Repeat("x", 1000):                   "what is not an epoch",
		} {
			require.NoError(s, s.ensemble.Set(path, []byte(data)))
			_, err := a.epochs.Claim(s.Context(), term.Claim)
			require.ErrorContains(s, err, why)
			require.ErrorContains(s, err, path)
			require.Less(s, len(err.Error()), 300)
			_, err = a.epochs.Current(s.Context())
			require.ErrorContains(s, err, why)
			require.ErrorContains(s, err, path)
			left, _, err := s.ensemble.Get(path)
			require.NoError(s, err)
			require.Equal(s, data, string(left))
		}
		// Emptied it is as good as new.
		require.NoError(s, s.ensemble.Set(path, nil))
		e, err := a.epochs.Claim(s.Context(), term.Claim)
		require.NoError(s, err)
		require.Equal(s, int64(1), e.Number())

		for at, why := range map[string]string{"/election/controller": "what is not an epoch", "/election": "children"} {
			inUse, err := epoch.New(a.Client, at, nil)
			require.NoError(s, err)
			_, err = inUse.Claim(s.Context(), term.Claim)
			require.ErrorContains(s, err, why)
		}
		_, err = a.Conn().Create("/fleeting", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(s, err)
		fleeting, err := epoch.New(a.Client, "/fleeting", nil)
		require.NoError(s, err)
		_, err = fleeting.Claim(s.Context(), term.Claim)
		require.ErrorContains(s, err, "ephemeral")
	})
}

func TestNonsenseIsRefusedBeforeAnythingIsSent(t *testing.T) {
	for _, bad := range []string{"", "epoch", "/", "/epoch/", "/a//b", "/a/../b", "/zookeeper/epoch"} {
		_, err := epoch.New(&recipes.Client{}, bad, nil)
		require.ErrorContains(t, err, "new epochs")
		require.ErrorContains(t, err, fmt.Sprintf("path %q", bad))
	}
	_, err := epoch.New(nil, path, nil)
	require.ErrorContains(t, err, "client is nil")
	_, err = epoch.New(&recipes.Client{}, path, &epoch.Options{ID: strings.Repeat("x", 4097)})
	require.ErrorContains(t, err, "4097 bytes is over the limit of 4096")

	bubble(t, func(s *stage) {
		a, b := s.candidate("a"), s.candidate("b")
		term := a.campaign()
		_, err := a.epochs.Claim(s.Context(), nil)
		require.ErrorContains(s, err, "claim is nil")
		_, err = b.epochs.Claim(s.Context(), term.Claim)
		require.ErrorContains(s, err, "another client")
		var none context.Context
		_, err = a.epochs.Claim(none, term.Claim)
		require.ErrorContains(s, err, "context is nil")
		_, err = a.epochs.Current(none)
		require.ErrorContains(s, err, "context is nil")
		for _, err := range a.epochs.Observe(none) {
			require.ErrorContains(s, err, "context is nil")
		}
		_, _, err = s.ensemble.Get(path)
		require.ErrorIs(s, err, zktest.ErrNoNode)

		e, err := a.epochs.Claim(s.Context(), term.Claim)
		require.NoError(s, err)
		_, err = e.Commit(none, set("nil"))
		require.ErrorContains(s, err, "context is nil")
		require.NoError(s, term.Resign(s.Context()))
		others, err := epoch.New(a.Client, path, nil)
		require.NoError(s, err)
		_, err = others.Claim(s.Context(), term.Claim)
		require.ErrorIs(s, err, recipes.ErrReleased)
		s.requireState("none")
	})
}

func TestClaimEndsWithItsTermOrItsContextWhileNoServerIsReached(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term := a.campaign()
		a.link.Hold(zktest.Both)
		ctx, cancel := context.WithTimeout(s.Context(), timeout/16)
		defer cancel()
		_, err := a.epochs.Claim(ctx, term.Claim)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		_, err = a.epochs.Claim(s.Context(), term.Claim)
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorIs(s, err, recipes.ErrDeadline)
		a.link.Release()
		_, _, err = s.ensemble.Get(path)
		require.ErrorIs(s, err, zktest.ErrNoNode)
	})
}

func TestEpochsStandBelowTheClientsNamespace(t *testing.T) {
	bubble(t, func(s *stage) {
		epochs, err := epoch.New(s.connect(s.ensemble.Link(), "/ours"), path, nil)
		require.NoError(s, err)
		require.Equal(s, "/ours"+path, epochs.Path())
	})
}

func TestObserverSeesEachNewEpochAcrossSessions(t *testing.T) {
	bubble(t, func(s *stage) {
		a, o := s.candidate("a"), s.candidate("o")
		ctx, cancel := context.WithCancelCause(s.Context())
		seen := make(chan epoch.Record)
		var last error
		go func() {
			defer close(seen)
			for newest, err := range o.epochs.Observe(ctx) {
				if err != nil {
					last = err
					return
				}
				seen <- newest
			}
		}()
		synctest.Wait()
		for number := int64(1); number <= 3; number++ {
			term, _ := a.lead()
			newest := <-seen
			require.Equal(s, number, newest.Number)
			require.Equal(s, term.Token(), newest.Token)
			require.NoError(s, term.Resign(s.Context()))
			require.NoError(s, s.ensemble.Expire(o.SessionID()))
			time.Sleep(timeout) // and what was seen is not told anew
		}
		for range 2 { // while the reader does not come
			term, _ := a.lead()
			require.NoError(s, term.Resign(s.Context()))
		}
		synctest.Wait()
		first := <-seen
		require.Equal(s, int64(4), first.Number, "it was under way")
		require.Equal(s, int64(5), (<-seen).Number)

		require.NoError(s, s.ensemble.Delete(path))
		term, _ := a.lead()
		require.Equal(s, int64(1), (<-seen).Number)
		require.NoError(s, term.Resign(s.Context()))

		why := errors.New("enough")
		cancel(why)
		_, more := <-seen
		require.False(s, more)
		require.ErrorIs(s, last, why)
		require.ErrorIs(s, last, context.Canceled)
	})
}
