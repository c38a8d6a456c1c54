// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
)

// A request is one call of an Eval. The tests of the torture module run the guards on a real Redis; these tests cover replies
// that a real one cannot be made to give.
type request struct {
	script string
	keys   []string
	args   []any
}

// answering returns a guard whose Redis always gives the same reply, and the recorded requests.
func answering(t *testing.T, reply any, err error) (*redisfence.Guard, *[]request) {
	t.Helper()
	var all []request
	guard, newErr := redisfence.New(func(_ context.Context, script string, keys []string, args ...any) (any, error) {
		all = append(all, request{script, keys, args})
		return reply, err
	}, nil)
	require.NoError(t, newErr)
	return guard, &all
}

const script = `redis.call("SET", KEYS[1], ARGV[1])`

func TestFenceAndTokenFollowArgumentsOfCaller(t *testing.T) {
	guard, all := answering(t, []any{"done"}, nil)
	keys, args := make([]string, 1, 9), make([]any, 1, 9)
	keys[0], args[0] = "total", 42
	result, err := guard.Do(t.Context(), "ledger", 1<<53+1, script, keys, args...)
	require.NoError(t, err)
	require.Nil(t, result)
	require.Len(t, *all, 1)
	require.Equal(t, []string{"total", "lockkeeper:fence:ledger\x00runs", "lockkeeper:fence:ledger"}, (*all)[0].keys)
	sent := (*all)[0].args
	require.Len(t, sent, 4)
	require.Equal(t, 42, sent[0])
	require.Empty(t, sent[2], "no history")
	require.Equal(t, "9007199254740993", sent[3], "as text, with all its digits")
	require.Empty(t, keys[:2][1], "the caller's slice is unchanged")
	_, err = guard.Do(t.Context(), "ledger", 1<<53+1, script, keys, args...)
	require.NoError(t, err)
	require.NotEqual(t, sent[1], (*all)[1].args[1], "each Do has its own nonce")
	first, _, _ := strings.Cut((*all)[0].script, "\n")
	require.Contains(t, first, script, "the script begins on the first line")
}

func TestPrefixIsConfigurable(t *testing.T) {
	var got []string
	guard, err := redisfence.New(func(_ context.Context, _ string, keys []string, _ ...any) (any, error) {
		for _, key := range keys {
			got = append(got, strings.TrimSuffix(key, "\x00runs"))
		}
		return []any{"done"}, nil
	}, &redisfence.Options{Prefix: "{app}:"})
	require.NoError(t, err)
	_, err = guard.Do(t.Context(), "ledger", 7, script, nil)
	require.NoError(t, err)
	_, err = guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.NoError(t, guard.Reset(t.Context(), "ledger", 0))
	require.NoError(t, guard.Reset(t.Context(), "ledger", 7))
	require.Equal(t, slices.Repeat([]string{"{app}:ledger"}, 7), got)
}

func TestRepliesAreDecodedFromStringsAndBytes(t *testing.T) {
	for _, reply := range []any{
		[]any{"stale", "9007199254740993"},
		[]any{[]byte("stale"), []byte("9007199254740993")},
	} {
		guard, _ := answering(t, reply, nil)
		_, err := guard.Do(t.Context(), "ledger", 1<<53, script, nil)
		var stale *fencing.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, fencing.StaleError{Token: 1 << 53, Newest: 1<<53 + 1}, *stale)
		require.EqualError(t, err, `redisfence: write "ledger" with token 9007199254740992: `+
			`fencing: token 9007199254740992 is stale: 9007199254740993 has been admitted`)
	}
	for _, reply := range []any{[]any{"done", "12"}, []any{[]byte("done"), []byte("12")}} {
		guard, _ := answering(t, reply, nil)
		newest, err := guard.Newest(t.Context(), "ledger")
		require.NoError(t, err)
		require.EqualValues(t, 12, newest)
	}
}

func TestUnknownReplyIsUncertain(t *testing.T) {
	for _, reply := range []any{nil, "done", []any{}, []any{7}, []any{"perhaps"}, []string{"done"}, int64(1)} {
		guard, _ := answering(t, reply, nil)
		_, err := guard.Do(t.Context(), "ledger", 7, script, nil)
		require.ErrorIs(t, err, redisfence.ErrUncertain, "%v", reply)
		require.NotErrorIs(t, err, fencing.ErrStale)
		require.ErrorIs(t, guard.Reset(t.Context(), "ledger", 7), redisfence.ErrUncertain)
	}
}

// refusal is an error with which go-redis reports an error reply of the server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func TestLostReplyIsUncertain(t *testing.T) {
	lost := errors.New("connection reset")
	guard, _ := answering(t, nil, lost)
	_, err := guard.Do(t.Context(), "ledger", 7, script, nil)
	require.ErrorIs(t, err, redisfence.ErrUncertain)
	require.ErrorIs(t, err, lost)
	require.NotErrorIs(t, err, fencing.ErrStale)
	_, err = guard.Newest(t.Context(), "ledger")
	require.ErrorIs(t, err, lost)
	require.NotErrorIs(t, err, redisfence.ErrUncertain, "a read has no outcome")
}

func TestErrorReplyIsUncertainUnlessTheClientSendsOnce(t *testing.T) {
	eval := func(context.Context, string, []string, ...any) (any, error) {
		return nil, refusal("NOAUTH Authentication required.")
	}
	for _, opts := range []*redisfence.Options{nil, {}} {
		guard, err := redisfence.New(eval, opts)
		require.NoError(t, err)
		_, err = guard.Do(t.Context(), "ledger", 7, script, nil)
		require.ErrorIs(t, err, redisfence.ErrUncertain, "the first attempt may have run")
		require.ErrorContains(t, err, "NOAUTH")
		require.ErrorIs(t, guard.Reset(t.Context(), "ledger", 7), redisfence.ErrUncertain)
	}
	guard, err := redisfence.New(eval, &redisfence.Options{SendsOnce: true})
	require.NoError(t, err)
	_, err = guard.Do(t.Context(), "ledger", 7, script, nil)
	require.NotErrorIs(t, err, redisfence.ErrUncertain)
	require.ErrorContains(t, err, "nothing has run: NOAUTH")
}

func TestRepeatedScriptIsUncertainAndRepeatedResetIsNot(t *testing.T) {
	guard, _ := answering(t, []any{"repeat"}, nil)
	_, err := guard.Do(t.Context(), "ledger", 7, script, nil)
	require.ErrorIs(t, err, redisfence.ErrUncertain)
	require.ErrorContains(t, err, "it had run")
	require.NoError(t, guard.Reset(t.Context(), "ledger", 7))
}

func TestTokenOfAnotherHistoryIsRefusedWithBothHistories(t *testing.T) {
	for _, stored := range []any{"first", []byte("first")} {
		guard, err := redisfence.New(func(context.Context, string, []string, ...any) (any, error) {
			return []any{"history", stored}, nil
		}, &redisfence.Options{History: "second"})
		require.NoError(t, err)
		_, err = guard.Do(t.Context(), "ledger", 7, script, nil)
		var other *fencing.HistoryError
		require.ErrorAs(t, err, &other)
		require.Equal(t, fencing.HistoryError{Token: 7, Given: "second", Stored: "first"}, *other)
		require.NotErrorIs(t, err, redisfence.ErrUncertain)
	}
}

func TestStoredTokenOutOfRangeIsDamaged(t *testing.T) {
	guard, _ := answering(t, []any{"stale", "9999999999999999999"}, nil)
	_, err := guard.Do(t.Context(), "ledger", 7, script, nil)
	require.ErrorIs(t, err, redisfence.ErrDamaged)
	require.NotErrorIs(t, err, fencing.ErrStale)
	guard, _ = answering(t, []any{"done", "9999999999999999999"}, nil)
	_, err = guard.Newest(t.Context(), "ledger")
	require.ErrorIs(t, err, redisfence.ErrDamaged)
}

func TestMisuseIsReportedBeforeAnythingIsSent(t *testing.T) {
	_, err := redisfence.New(nil, nil)
	require.ErrorContains(t, err, "eval is nil")
	_, err = redisfence.New(func(context.Context, string, []string, ...any) (any, error) { return nil, nil },
		&redisfence.Options{History: "a b"})
	require.ErrorContains(t, err, `the history id "a b" contains the character ' '`)

	guard, all := answering(t, []any{"done"}, nil)
	_, err = guard.Do(t.Context(), "ledger", 7, "", nil)
	require.ErrorContains(t, err, "the script is empty")
	_, err = guard.Do(t.Context(), "ledger", 7, "#!lua flags=no-writes\nreturn 1", nil)
	require.ErrorContains(t, err, "the script begins with a shebang line")
	for _, token := range []fencing.Token{0, -1} {
		_, err = guard.Do(t.Context(), "ledger", token, script, nil)
		require.ErrorIs(t, err, fencing.ErrInvalid)
	}
	require.ErrorIs(t, guard.Reset(t.Context(), "ledger", -1), fencing.ErrInvalid)
	for _, name := range []string{"", "led\x00ger", strings.Repeat("l", 513), "led\xffger"} {
		_, err = guard.Do(t.Context(), name, 7, script, nil)
		require.ErrorContains(t, err, "the resource's name")
		_, err = guard.Newest(t.Context(), name)
		require.ErrorContains(t, err, "the resource's name")
		require.ErrorContains(t, guard.Reset(t.Context(), name, 0), "the resource's name")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = guard.Do(done, "ledger", 7, script, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, redisfence.ErrUncertain)
	require.Empty(t, *all)
}
