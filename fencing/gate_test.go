// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func TestEmptyGateAdmitsAnyValidToken(t *testing.T) {
	for _, token := range []fencing.Token{1, 4294967311, math.MaxInt64} {
		var gate fencing.Gate
		require.Zero(t, gate.Newest())
		require.NoError(t, gate.Admit(token))
		require.Equal(t, token, gate.Newest())
	}
}

func TestGateAdmitsEqualAndNewerTokens(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(7))
	require.NoError(t, gate.Admit(7))
	require.NoError(t, gate.Admit(12))
	require.NoError(t, gate.Admit(12))
	require.Equal(t, fencing.Token(12), gate.Newest())
}

func TestGateRefusesAnOlderToken(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(12))

	err := gate.Admit(11)
	require.ErrorIs(t, err, fencing.ErrStale)
	require.NotErrorIs(t, err, fencing.ErrInvalid)
	require.EqualError(t, err, "fencing: token 11 is stale: 12 has been admitted")
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, &fencing.StaleError{Token: 11, Newest: 12}, stale)

	require.Equal(t, fencing.Token(12), gate.Newest(), "a refusal changes nothing")
	require.NoError(t, gate.Admit(12))
}

func TestGateRefusesAnInvalidTokenAndStaysAsItWas(t *testing.T) {
	for _, newest := range []fencing.Token{0, 12} {
		for _, token := range []fencing.Token{0, -1, math.MinInt64} {
			var gate fencing.Gate
			require.NoError(t, gate.Reset(newest))
			err := gate.Admit(token)
			require.ErrorIs(t, err, fencing.ErrInvalid)
			require.NotErrorIs(t, err, fencing.ErrStale)
			require.ErrorContains(t, err, token.String())
			require.Equal(t, newest, gate.Newest())
		}
	}
}

func TestResetResumesFromAStoredToken(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Reset(12))
	require.ErrorIs(t, gate.Admit(11), fencing.ErrStale)
	require.NoError(t, gate.Admit(12))
}

func TestResetOpensTheGateToALowerHistory(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(1<<40))
	require.ErrorIs(t, gate.Admit(3), fencing.ErrStale)

	require.NoError(t, gate.Reset(0))
	require.NoError(t, gate.Admit(3))
	require.ErrorIs(t, gate.Admit(2), fencing.ErrStale, "it guards again at once")
}

func TestResetRefusesANegativeToken(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(12))
	require.ErrorIs(t, gate.Reset(-1), fencing.ErrInvalid)
	require.Equal(t, fencing.Token(12), gate.Newest())
}

// Callers race to raise the gate, each asking twice with its token, as a holder that writes twice does. Each notes, once
// admitted, how far the gate has certainly come; whoever is admitted with a token older than what stood there before it
// asked has been let in late.
func TestTokenIsNotAdmittedOnceANewerOneWas(t *testing.T) {
	const callers, rounds = 8, 50_000
	var (
		gate    fencing.Gate
		granted atomic.Int64
		noted   atomic.Int64 // the newest token whose Admit has returned nil; never falls
		late    atomic.Int64
		group   sync.WaitGroup
	)
	write := func(token int64) {
		before := noted.Load()
		if gate.Admit(fencing.Token(token)) != nil {
			return
		}
		if token < before {
			late.Add(1)
		}
		for {
			n := noted.Load()
			if token <= n || noted.CompareAndSwap(n, token) {
				return
			}
		}
	}
	for range callers {
		group.Go(func() {
			for range rounds {
				token := granted.Add(1)
				write(token)
				write(token)
			}
		})
	}
	group.Wait()
	require.Zero(t, late.Load(), "tokens admitted after a newer one")
	require.Equal(t, fencing.Token(callers*rounds), gate.Newest(), "the newest of all is always admitted")
}
