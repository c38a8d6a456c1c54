// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

func TestScriptGetsItsKeysAndArgumentsAndReturnsItsResult(t *testing.T) {
	r := registersOf(t, goRedis(t, stores.Redis(t, nil).Addr), "")
	for script, want := range map[string]any{
		`return {#KEYS, #ARGV, KEYS[1], KEYS[2], ARGV[1]}`: []any{int64(2), int64(1), "a", "b", "x"},
		`return redis.call("SET", KEYS[1], ARGV[1])`:       "OK",
		`return redis.call("GET", "nothing")`:              nil,
		`return false`:                                     nil,
		`return 7 -- days`:                                 int64(7),
		"local n = 1\nreturn n":                            int64(1),
		`-- nothing`:                                       nil,
		`return {"done", {"stale", "9"}}`:                  []any{"done", []any{"stale", "9"}},
	} {
		got, err := r.Do(t.Context(), "ledger", 7, script, []string{"a", "b"}, "x")
		require.NoError(t, err, script)
		require.Equal(t, want, got, script)
	}
}

func TestScriptCannotAccessTheFenceByVariables(t *testing.T) {
	r := registersOf(t, goRedis(t, stores.Redis(t, nil).Addr), "")
	require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"))
	for _, script := range []string{
		`redis.call("SET", key, 1)`, `redis.call("SET", KEYS[2], 1)`, `redis.call("SET", KEYS[3], 1)`,
		`key = 1`, `token = 1`, `newest = 1`, `began = false`, `history = ""`, `error(key .. "")`, `return #nonce`,
	} {
		_, err := r.Do(t.Context(), "ledger", 9, script, []string{"value:ledger"})
		require.ErrorIs(t, err, redisfence.ErrScript, script)
		require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "stale"), fencing.ErrStale, "after %s", script)
	}
}

func TestFailedScriptNamesItsLineAndKeepsItsWrites(t *testing.T) {
	for name, eval := range map[string]redisfence.Eval{
		"go-redis": goRedis(t, stores.Redis(t, nil).Addr), "redigo": viaRedigo(t, stores.Redis(t, nil).Addr),
	} {
		r := registersOf(t, eval, "")
		for _, script := range []string{
			`redis.call("INCR", KEYS[1]) error("spoilt")`,
			`redis.call("INCR", KEYS[1]) return redis.error_reply("spoilt")`,
			`redis.call("INCR", KEYS[1]) error({err = "spoilt"})`,
			`redis.call("INCR", KEYS[1]) local spoilt; spoilt()`,
		} {
			require.NoError(t, r.Reset(t.Context(), "ledger"))
			_, err := r.Do(t.Context(), "ledger", 9, script, []string{"value:count"})
			require.ErrorIs(t, err, redisfence.ErrScript, name)
			require.ErrorContains(t, err, "spoilt", name)
			require.NotErrorIs(t, err, redisfence.ErrUncertain)
			require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "stale"), fencing.ErrStale, "9 is admitted")
		}
		count, err := r.Value(t.Context(), "count")
		require.NoError(t, err)
		require.Equal(t, "4", count)

		_, err = r.Do(t.Context(), "ledger", 9, "\n\nredis.call(\"LPUSH\", KEYS[1], 1)", []string{"value:count"})
		require.ErrorIs(t, err, redisfence.ErrScript)
		require.ErrorContains(t, err, "WRONGTYPE")
		_, err = r.Do(t.Context(), "ledger", 9, "local a\nlocal b\nno_such_function()", nil)
		require.ErrorContains(t, err, "user_script:3:", "the third line")

		_, err = r.Do(t.Context(), "ledger", 10, "no script", nil)
		require.ErrorContains(t, err, "user_script:1:")
		require.NotErrorIs(t, err, redisfence.ErrScript)
		require.ErrorIs(t, err, redisfence.ErrUncertain, "it could be the reply to a second attempt")
		once, newErr := redisfence.New(eval, &redisfence.Options{SendsOnce: true})
		require.NoError(t, newErr)
		_, err = once.Do(t.Context(), "ledger", 10, "no script", nil)
		require.ErrorContains(t, err, "user_script:1:")
		require.Equal(t, name == "redigo", errors.Is(err, redisfence.ErrUncertain), "redigo does not distinguish errors of the server")
		require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"), "10 was not admitted")
	}
}

// The guard has raised the fence before the script begins, and Redis kills only scripts that have not written.
func TestScriptThatLoopsCannotBeKilled(t *testing.T) {
	server := stores.Redis(t, &stores.Options{Args: []string{"--lua-time-limit", "5"}})
	r := registersOf(t, goRedis(t, server.Addr), "")
	ended := make(chan error, 1)
	go func() {
		_, err := r.Do(t.Context(), "ledger", 7, `while true do end`, nil)
		ended <- err
	}()
	admin := dial(t, server.Addr)
	require.Eventually(t, func() bool {
		err := admin.ScriptKill(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "UNKILLABLE")
	}, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, server.Kill(t.Context()))
	require.ErrorIs(t, <-ended, redisfence.ErrUncertain)
}
