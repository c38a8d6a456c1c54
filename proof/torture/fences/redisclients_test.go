// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"strings"
	"testing"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// setTotal is in the documentation of redisfence, line by line.

func setTotal(ctx context.Context, client *redis.Client, token fencing.Token, total int) error {
	guard, err := redisfence.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return client.Eval(ctx, script, keys, args...).Result()
	}, nil)
	if err != nil {
		return err
	}
	_, err = guard.Do(ctx, "ledger", token, `redis.call("SET", KEYS[1], ARGV[1])`, []string{"total"}, total)
	return err
}

func TestExampleInTheDocumentationOfRedis(t *testing.T) {
	client := dial(t, stores.Redis(t, nil).Addr)
	require.NoError(t, setTotal(t.Context(), client, 4294967311, 1))
	require.NoError(t, setTotal(t.Context(), client, 4294967330, 2))
	require.EqualError(t, setTotal(t.Context(), client, 4294967311, 3), `redisfence: write "ledger" with token 4294967311: `+
		`fencing: token 4294967311 is stale: 4294967330 has been admitted`)
	total, err := client.Get(t.Context(), "total").Int()
	require.NoError(t, err)
	require.Equal(t, 2, total)

	shows(t, "redisfence", code(t, "redisclients_test.go", "\nfunc setTotal(", "func Test"))
	shows(t, "redisfence", strings.ReplaceAll(code(t, "redisclients_test.go", "\n\tall := []any{script", "\n}\n"), "\n\t", "\n"))
}

// The client sends the script, its reply is lost, and the server then requires a password: the second attempt, which is not
// the first one's outcome, is refused.
func TestRefusalOfSecondAttemptIsUncertain(t *testing.T) {
	server := stores.Redis(t, nil)
	admin := dial(t, server.Addr)
	loss := &replyLoss{}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: loss.dial})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	password := func() { require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "secret").Err()) }
	loss.lose.Store(&password)

	err := setTotal(t.Context(), client, 7, 1)
	require.Nil(t, loss.lose.Load(), "the reply was lost")
	require.ErrorContains(t, err, "NOAUTH")
	require.ErrorIs(t, err, redisfence.ErrUncertain)
	total, err := admin.Get(t.Context(), "total").Int()
	require.NoError(t, err)
	require.Equal(t, 1, total, "the script has run")
}

// A client sends each script twice, and in between another client changes the fence.
func TestRepeatIsRecognizedWhateverTheFenceHolds(t *testing.T) {
	client := dial(t, stores.Redis(t, nil).Addr)
	eval := evalOf(client)
	for name, meanwhile := range map[string]func(resource string){
		"the same token": func(string) {},
		"a newer token": func(resource string) {
			require.NoError(t, registersOfHistory(t, eval, "", "first").Write(t.Context(), resource, 9, "newer"))
		},
		"another history": func(resource string) {
			require.NoError(t, registersOfHistory(t, eval, "", "second").Guard.Reset(t.Context(), resource, 3))
		},
		"no token": func(resource string) {
			require.NoError(t, client.Set(t.Context(), "fence:"+resource, "seven", 0).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			twice := func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
				_, err := eval(ctx, script, keys, args...)
				require.NoError(t, err)
				meanwhile(name)
				return eval(ctx, script, keys, args...)
			}
			guard, err := redisfence.New(twice, &redisfence.Options{Prefix: "fence:", History: "first"})
			require.NoError(t, err)
			_, err = guard.Do(t.Context(), name, 7, `redis.call("INCR", KEYS[1])`, []string{name + ":count"})
			require.ErrorIs(t, err, redisfence.ErrUncertain)
			require.NotErrorIs(t, err, fencing.ErrStale)
			require.NotErrorIs(t, err, fencing.ErrOtherHistory)
			require.NotErrorIs(t, err, redisfence.ErrDamaged)
			count, err := client.Get(t.Context(), name+":count").Int()
			require.NoError(t, err)
			require.Equal(t, 1, count)
		})
	}
}

// dial returns a client that does not retry.
func dial(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	tb.Cleanup(func() { require.NoError(tb, client.Close()) })
	return client
}

func goRedis(tb testing.TB, addr string) redisfence.Eval {
	tb.Helper()
	return evalOf(dial(tb, addr))
}

// evalOf returns the function through which a guard calls a client of go-redis.
func evalOf(client *redis.Client) redisfence.Eval {
	return func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return client.Eval(ctx, script, keys, args...).Result()
	}
}

func viaRedigo(tb testing.TB, addr string) redisfence.Eval {
	tb.Helper()
	pool := &redigo.Pool{DialContext: func(ctx context.Context) (redigo.Conn, error) {
		return redigo.DialContext(ctx, "tcp", addr)
	}}
	tb.Cleanup(func() { require.NoError(tb, pool.Close()) })
	return func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		conn, err := pool.GetContext(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }() // returns it to the pool
		return redigoEval(ctx, conn, script, keys, args...)
	}
}

// redigoEval calls a script through redigo. The documentation of redisfence shows its body.
func redigoEval(ctx context.Context, conn redigo.Conn, script string, keys []string, args ...any) (any, error) {
	all := []any{script, len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	return redigo.DoContext(conn, ctx, "EVAL", append(all, args...)...)
}
