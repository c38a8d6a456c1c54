// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTermsCountWithoutGapsAndAnyClientReadsNewest(t *testing.T) {
	bubble(t, func(s servers) {
		reader, err := epoch.New(s.connect(s.Link(), ""), path, nil)
		require.NoError(s, err)
		_, err = reader.Current(s.Context())
		require.ErrorIs(s, err, epoch.ErrNoEpoch)
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
				Number: number, Token: term.Token(), Owner: term.Owner(), Node: term.Path(), Since: newest.Since,
			}, newest)
			require.WithinDuration(s, time.Now(), newest.Since, time.Second)
			require.Greater(s, newest.Token, token)
			token = newest.Token
			require.NoError(s, term.Resign(s.Context()))
		}
	})
}

func TestClaimingTwiceInOneTermReturnsOneEpoch(t *testing.T) {
	bubble(t, func(s servers) {
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
		_, before, err := s.Get(path)
		require.NoError(s, err)
		again, err := epoch.New(a.Client, path, nil)
		require.NoError(s, err)
		e, err := again.Claim(s.Context(), term.Claim)
		require.NoError(s, err)
		require.Equal(s, int64(1), e.Number())
		_, err = e.Commit(s.Context(), set("again"))
		require.NoError(s, err)
		_, after, err := s.Get(path)
		require.NoError(s, err)
		require.Equal(s, before, after)
	})
}

func TestClaimCutAtAnyFrameClaimsOneEpoch(t *testing.T) {
	for _, after := range []bool{false, true} {
		sprung := true
		for n := 1; sprung; n++ {
			t.Run(fmt.Sprintf("frame %d, after %v", n, after), func(t *testing.T) {
				bubble(t, func(s servers) {
					a := s.candidate("a")
					term := a.campaign()
					lose := a.link.LoseRequest
					if after {
						lose = a.link.LoseReply
					}
					trap := lose(n)
					e, err := a.epochs.Claim(s.Context(), term.Claim)
					sprung = trap.Sprung()
					require.NoError(s, err)
					require.Equal(s, int64(1), e.Number())
					_, err = e.Commit(s.Context(), set("a"))
					if !errors.Is(err, recipes.ErrUncertain) { // the trap ended the connection at a frame of the Commit instead
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

func TestUnansweredClaimIsUncertainAndFoundByNextCall(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		term, err := a.claimUnanswered()
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.ErrorContains(s, err, path)
		_, claimed, err := s.Get(path)
		require.NoError(s, err)

		e, err := a.epochs.Claim(s.Context(), term.Claim)
		require.NoError(s, err)
		require.Equal(s, int64(1), e.Number())
		_, err = e.Commit(s.Context(), set("a"))
		require.NoError(s, err)
		_, found, err := s.Get(path)
		require.NoError(s, err)
		require.Equal(s, claimed, found)
	})
}

// The epoch has been claimed, and the term is lost before Claim can find that out.
func TestClaimWhoseTermIsLostBeforeRecoveryIsUncertain(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		term := a.campaign()
		time.Sleep(steady)
		trap := a.link.LoseReply(2)
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

func TestForeignNodeIsRefusedAndNotChanged(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		term := a.campaign()
		require.NoError(s, s.Create(path, nil))
		for data, why := range map[string]string{
			"words":                   "data is not an epoch",
			"7":                       "data is not an epoch",
			"{}":                      "data is not an epoch",
			`{"format":2,"epoch":7}`:  "format 2",
			`{"format":1}`:            "epoch 0",
			`{"format":1,"epoch":-1}`: "epoch -1",
			`{"format":1,"epoch":9223372036854775807}`:  fmt.Sprint("epoch ", int64(math.MaxInt64)),
			`{"format":1,"epoch":7,"token":"-2"}`:       "data is not an epoch",
			`{"format":1,"epoch":99999999999999999999}`: "data is not an epoch",
			strings.Repeat("x", 1000):                   "data is not an epoch",
		} {
			require.NoError(s, s.Set(path, []byte(data)))
			_, err := a.epochs.Claim(s.Context(), term.Claim)
			require.ErrorContains(s, err, why)
			require.ErrorContains(s, err, path)
			require.Less(s, len(err.Error()), 300)
			_, err = a.epochs.Current(s.Context())
			require.ErrorContains(s, err, why)
			require.ErrorContains(s, err, path)
			left, _, err := s.Get(path)
			require.NoError(s, err)
			require.Equal(s, data, string(left))
		}
		// An emptied node is usable.
		require.NoError(s, s.Set(path, nil))
		e, err := a.epochs.Claim(s.Context(), term.Claim)
		require.NoError(s, err)
		require.Equal(s, int64(1), e.Number())

		for at, why := range map[string]string{"/election/controller": "queue of a lock or an election", "/election": "children"} {
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

func TestInvalidArgumentsAreRefusedBeforeAnyRequest(t *testing.T) {
	for _, bad := range []string{"", "epoch", "/", "/epoch/", "/a//b", "/a/../b", "/zookeeper/epoch"} {
		_, err := epoch.New(&recipes.Client{}, bad, nil)
		require.ErrorContains(t, err, "new epochs")
		require.ErrorContains(t, err, fmt.Sprintf("path %q", bad))
	}
	_, err := epoch.New(nil, path, nil)
	require.ErrorContains(t, err, "client is nil")
	_, err = epoch.New(&recipes.Client{}, path, &epoch.Options{Owner: strings.Repeat("x", 4097)})
	require.ErrorContains(t, err, "4097 bytes is over the limit of 4096")

	bubble(t, func(s servers) {
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
		_, _, err = s.Get(path)
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

func TestClaimEndsWithTermOrContextWhileNoServerIsReachable(t *testing.T) {
	bubble(t, func(s servers) {
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
		_, _, err = s.Get(path)
		require.ErrorIs(s, err, zktest.ErrNoNode)
	})
}

func TestEpochsAndTheirWritesAreBelowClientNamespace(t *testing.T) {
	bubble(t, func(s servers) {
		require.NoError(s, s.Create("/ours", nil))
		require.NoError(s, s.Create("/ours"+state, []byte("none")))
		client := s.connect(s.Link(), "/ours")
		epochs, err := epoch.New(client, path, nil)
		require.NoError(s, err)
		require.Equal(s, "/ours"+path, epochs.Path())
		controller, err := election.New(client, "/election/controller", nil)
		require.NoError(s, err)
		term, err := controller.Campaign(s.Context())
		require.NoError(s, err)
		e, err := epochs.Claim(s.Context(), term.Claim)
		require.NoError(s, err)

		_, err = e.Commit(s.Context(), set("ours"))
		require.NoError(s, err)
		data, _, err := s.Get("/ours" + state)
		require.NoError(s, err)
		require.Equal(s, "ours", string(data))
		s.requireState("none")
		_, err = e.Commit(s.Context(), &zk.SetDataRequest{Path: path, Version: -1})
		require.ErrorContains(s, err, "the epoch's own node")
	})
}
