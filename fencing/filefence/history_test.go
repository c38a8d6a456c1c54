// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filefence

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// inHistory opens the guard in dir for tokens of one history.
func inHistory(t *testing.T, dir, id string) *guarded {
	t.Helper()
	g, err := newGuarded(dir, &Options{History: id})
	require.NoError(t, err)
	return g
}

func TestTokenOfAnotherHistoryIsRefusedWhateverItsNumber(t *testing.T) {
	dir := t.TempDir()
	before, after := inHistory(t, dir, "first"), inHistory(t, dir, "second")
	require.NoError(t, before.Write(t.Context(), "ledger", 7, "seven"))
	for _, token := range []fencing.Token{6, 7, 8} {
		err := after.Write(t.Context(), "ledger", token, "unwanted")
		var other *fencing.HistoryError
		require.ErrorAs(t, err, &other)
		require.Equal(t, fencing.HistoryError{Token: token, Given: "second", Stored: "first"}, *other)
		require.NotErrorIs(t, err, fencing.ErrStale)
	}
	require.NoError(t, before.Write(t.Context(), "ledger", 7, "seven again"), "nothing was changed")
	require.ErrorIs(t, before.Write(t.Context(), "ledger", 6, "stale"), fencing.ErrStale)

	require.NoError(t, after.guard.Reset(t.Context(), "ledger", 3))
	require.ErrorIs(t, before.Write(t.Context(), "ledger", 9, "unwanted"), fencing.ErrOtherHistory)
	require.ErrorIs(t, after.Write(t.Context(), "ledger", 2, "stale"), fencing.ErrStale)
	require.NoError(t, after.Write(t.Context(), "ledger", 3, "three"))
	require.NoError(t, after.guard.Reset(t.Context(), "ledger", 0))
	require.ErrorIs(t, before.Write(t.Context(), "ledger", 9, "unwanted"), fencing.ErrOtherHistory)
}

func TestStoredTokenWithoutHistoryAdoptsFirstAdmittedHistory(t *testing.T) {
	dir := t.TempDir()
	plain, first, second := openGuarded(t, dir), inHistory(t, dir, "first"), inHistory(t, dir, "second")
	require.NoError(t, plain.Write(t.Context(), "ledger", 7, "seven"))
	require.ErrorIs(t, first.Write(t.Context(), "ledger", 6, "stale"), fencing.ErrStale)
	require.NoError(t, second.Write(t.Context(), "ledger", 7, "equal"), "the refusal has not adopted its history")
	require.ErrorIs(t, first.Write(t.Context(), "ledger", 8, "unwanted"), fencing.ErrOtherHistory)
}

func TestFenceWithoutHistoryComparesTokensAndKeepsStoredHistory(t *testing.T) {
	dir := t.TempDir()
	plain, first, second := openGuarded(t, dir), inHistory(t, dir, "first"), inHistory(t, dir, "second")
	require.NoError(t, first.Write(t.Context(), "ledger", 7, "seven"))
	require.ErrorIs(t, plain.Write(t.Context(), "ledger", 6, "stale"), fencing.ErrStale)
	require.NoError(t, plain.Write(t.Context(), "ledger", 8, "eight"))
	require.ErrorIs(t, second.Write(t.Context(), "ledger", 9, "unwanted"), fencing.ErrOtherHistory)

	require.NoError(t, plain.guard.Reset(t.Context(), "ledger", 8))
	require.NoError(t, second.Write(t.Context(), "ledger", 9, "nine"), "a reset without a history clears it")
}

func TestFileOfReleaseWithoutHistoriesIsReadable(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, inHistory(t, dir, "first").Write(t.Context(), "ledger", 1, "one"))
	g := openGuarded(t, dir)
	require.NoError(t, os.WriteFile(g.guard.record("ledger").file, []byte(`lockkeeper fence 1
token 4294967311
resource "ledger"
sum bd5ca851bf39905e39be60eeea67614ab8fa2c3c7c40708d4c90c8a4e6b18526
`), 0o600))
	newest, err := g.guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, fencing.Token(4294967311), newest)
}

func TestDamagedHistoryIsDetected(t *testing.T) {
	r := (&Guard{}).record("ledger")
	for _, s := range []state{{}, {newest: 7}, {newest: 7, history: "first"}, {history: "first"}} {
		got, err := r.decode(r.encode(s))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, history := range []string{"a b", "first\nhistory second", "é"} {
		_, err := r.decode(r.encode(state{newest: 7, history: history}))
		require.ErrorIs(t, err, ErrDamaged, "%q", history)
	}
	whole := r.encode(state{newest: 7, history: "first"})
	for n := range len(whole) {
		_, err := r.decode(whole[:n])
		require.ErrorIs(t, err, ErrDamaged, "%q", whole[:n])
	}
}

func TestOpenRefusesInvalidHistory(t *testing.T) {
	_, err := New(t.TempDir(), &Options{History: "a b"})
	require.ErrorContains(t, err, `the history id "a b" contains the character ' '`)
}
