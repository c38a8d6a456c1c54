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
	"github.com/lockkeeper/lockkeeper/torture/stores"
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
