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

func TestGateRefusesOlderToken(t *testing.T) {
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

func TestSharedTokenIsAdmittedUnlessAnExclusiveOneIsNewer(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.AdmitShared(20))
	require.Zero(t, gate.Newest(), "a shared token is never the newest")
	require.NoError(t, gate.Admit(12))
	require.NoError(t, gate.AdmitShared(20))
	require.NoError(t, gate.AdmitShared(12))
	require.Equal(t, fencing.Token(12), gate.Newest())
	require.NoError(t, gate.Admit(15), "older than a shared token")
	err := gate.AdmitShared(14)
	require.ErrorIs(t, err, fencing.ErrStale)
	require.EqualError(t, err, "fencing: token 14 is stale: 15 has been admitted")
	for _, token := range []fencing.Token{0, -1} {
		require.ErrorIs(t, gate.AdmitShared(token), fencing.ErrInvalid)
	}
}

func TestRefusedInvalidTokenLeavesGateUnchanged(t *testing.T) {
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

func TestResetResumesFromStoredToken(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Reset(12))
	require.ErrorIs(t, gate.Admit(11), fencing.ErrStale)
	require.NoError(t, gate.Admit(12))
}

func TestResetAdmitsLowerTokens(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(1<<40))
	require.ErrorIs(t, gate.Admit(3), fencing.ErrStale)

	require.NoError(t, gate.Reset(0))
	require.NoError(t, gate.Admit(3))
	require.ErrorIs(t, gate.Admit(2), fencing.ErrStale, "the gate refuses again immediately")
}

func TestResetRefusesNegativeToken(t *testing.T) {
	var gate fencing.Gate
	require.NoError(t, gate.Admit(12))
	require.ErrorIs(t, gate.Reset(-1), fencing.ErrInvalid)
	require.Equal(t, fencing.Token(12), gate.Newest())
}

// Callers race to raise the gate. Each calls Admit twice with its token, as a holder that writes twice does. Each caller
// records, once admitted, a lower bound of the gate's newest token. A token older than the bound that was recorded before
// its Admit began must not be admitted.
func TestTokenIsNotAdmittedAfterNewerOne(t *testing.T) {
	const callers, rounds = 8, 50_000
	var (
		gate    fencing.Gate
		granted atomic.Int64
		bound   atomic.Int64 // the newest token whose Admit has returned nil; never falls
		stale   atomic.Int64
		group   sync.WaitGroup
	)
	write := func(token int64) {
		before := bound.Load()
		if gate.Admit(fencing.Token(token)) != nil {
			return
		}
		if token < before {
			stale.Add(1)
		}
		for {
			n := bound.Load()
			if token <= n || bound.CompareAndSwap(n, token) {
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
	require.Zero(t, stale.Load(), "tokens admitted after a newer one")
	require.Equal(t, fencing.Token(callers*rounds), gate.Newest(), "the newest of all is always admitted")
}
