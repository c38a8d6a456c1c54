// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/torture/stores"
)

// This function stands in the documentation of redisfence, line by line.

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

	shows(t, "redisfence", code(t, "redis_test.go", "\nfunc setTotal(", "func Test"))
	shows(t, "redisfence", strings.ReplaceAll(code(t, "redis_test.go", "\n\tall := []any{script", "\n}\n"), "\n\t", "\n"))
}

// dial returns a client that sends once.
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
		defer func() { _ = conn.Close() }() // goes back to the pool
		return redigoEval(ctx, conn, script, keys, args...)
	}
}

func redigoEval(ctx context.Context, conn redigo.Conn, script string, keys []string, args ...any) (any, error) {
	all := []any{script, len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	return redigo.DoContext(conn, ctx, "EVAL", append(all, args...)...)
}

// Registers are values in Redis, behind a guard in the same one.
type registers struct {
	*redisfence.Guard

	eval   redisfence.Eval
	prefix string
}

func registersOf(t *testing.T, eval redisfence.Eval, prefix string) registers {
	t.Helper()
	return registersOfHistory(t, eval, prefix, "")
}

func registersOfHistory(t *testing.T, eval redisfence.Eval, prefix, history string) registers {
	t.Helper()
	guard, err := redisfence.New(eval, &redisfence.Options{Prefix: prefix + "fence:", History: history})
	require.NoError(t, err)
	return registers{guard, eval, prefix + "value:"}
}

func (r registers) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	_, err := r.Do(ctx, resource, token, `redis.call("SET", KEYS[1], ARGV[1])`, []string{r.prefix + resource}, value)
	return err
}

func (r registers) Value(ctx context.Context, resource string) (string, error) {
	if _, err := r.Newest(ctx, resource); err != nil {
		return "", err // for what it says of the name
	}
	reply, err := r.eval(ctx, `return redis.call("GET", KEYS[1]) or ""`, []string{r.prefix + resource})
	if b, ok := reply.([]byte); ok {
		reply = string(b)
	}
	value, _ := reply.(string)
	return value, err
}

func (r registers) Reset(ctx context.Context, resource string) error {
	return r.Guard.Reset(ctx, resource, 0)
}

func TestGuardOfRedisIsAGuard(t *testing.T) {
	for name, connect := range map[string]func(testing.TB, string) redisfence.Eval{"go-redis": goRedis, "redigo": viaRedigo} {
		t.Run(name, func(t *testing.T) {
			server := stores.Redis(t, &stores.Options{Args: []string{"--lua-time-limit", "5"}})
			subjects := 0
			fencetest.Run(t, func(t *testing.T) fencetest.Subject {
				t.Helper()
				subjects++
				prefix := fmt.Sprintf("%d:", subjects)
				return fencetest.Subject{
					Open: func(t *testing.T) fencetest.Guarded {
						t.Helper()
						return registersOf(t, connect(t, server.Addr), prefix)
					},
					OpenHistory: func(t *testing.T, history string) fencetest.Guarded {
						t.Helper()
						return registersOfHistory(t, connect(t, server.Addr), prefix, history)
					},
					Uncertain: func(err error) bool { return errors.Is(err, redisfence.ErrUncertain) },
					Crash: func(t *testing.T, g fencetest.Guarded, resource string, token fencing.Token, value string) {
						t.Helper()
						killedWithin(t, server, g.(registers), resource, token, value)
					},
				}
			})
		})
	}
}

// killedWithin has the server die in the middle of the script. A client has no moment between check and write.
func killedWithin(t *testing.T, server *stores.Server, r registers, resource string, token fencing.Token, value string) {
	t.Helper()
	written := make(chan error)
	go func() {
		_, err := r.Do(t.Context(), resource, token, `redis.call("SET", KEYS[1], ARGV[1]) while true do end`,
			[]string{r.prefix + resource}, value)
		written <- err
	}()
	witness := dial(t, server.Addr)
	require.Eventually(t, func() bool {
		err := witness.Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, server.Kill(t.Context()))
	err := <-written
	require.ErrorIs(t, err, redisfence.ErrUncertain)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NoError(t, server.Start(t.Context()))
}

func TestFenceOfRedisOutlivesItsServerWithAnAppendOnlyFile(t *testing.T) {
	server := stores.Redis(t, &stores.Options{Args: []string{"--appendfsync", "always"}})
	for token := fencing.Token(7); token < 12; token++ {
		r := registersOf(t, goRedis(t, server.Addr), "")
		require.NoError(t, r.Write(t.Context(), "ledger", token, token.String()))
		require.NoError(t, server.Kill(t.Context()))
		require.NoError(t, server.Start(t.Context()))
		r = registersOf(t, goRedis(t, server.Addr), "")
		var stale *fencing.StaleError
		require.ErrorAs(t, r.Write(t.Context(), "ledger", token-1, "late"), &stale)
		require.Equal(t, fencing.StaleError{Token: token - 1, Newest: token}, *stale)
		value, err := r.Value(t.Context(), "ledger")
		require.NoError(t, err)
		require.Equal(t, token.String(), value)
	}
}

func TestRestartOfRedisWithoutAnAppendOnlyFileForgetsTheFence(t *testing.T) {
	server := stores.Redis(t, &stores.Options{Args: []string{"--appendonly", "no"}})
	require.NoError(t, registersOf(t, goRedis(t, server.Addr), "").Write(t.Context(), "ledger", 9, "nine"))
	require.NoError(t, server.Kill(t.Context()))
	require.NoError(t, server.Start(t.Context()))
	require.NoError(t, registersOf(t, goRedis(t, server.Addr), "").Write(t.Context(), "ledger", 8, "late"), "older than 9, and admitted")
}

// What the documentation warns of, on the first screen. The replica is promoted while the master still takes writes, as
// it does for clients on its side of a network partition.
func TestReplicaThatIsPromotedWithoutTheWriteAdmitsAnOlderToken(t *testing.T) {
	master := stores.Redis(t, &stores.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	replica := stores.Redis(t, &stores.Options{Args: []string{"--replicaof", host, port}})
	first, second := dial(t, master.Addr), dial(t, replica.Addr)
	require.Eventually(t, func() bool {
		info, err := second.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}, 10*time.Second, 5*time.Millisecond)

	before, after := registersOf(t, evalOf(first), ""), registersOf(t, evalOf(second), "")
	require.NoError(t, before.Write(t.Context(), "ledger", 7, "seven"))
	require.EqualValues(t, 1, waitFor(t, first, 10_000), "the replica has it")
	err = after.Write(t.Context(), "ledger", 9, "unwanted")
	require.ErrorContains(t, err, "READONLY", "a replica is not written to")
	require.NotErrorIs(t, err, redisfence.ErrUncertain)

	require.NoError(t, second.ReplicaOf(t.Context(), "NO", "ONE").Err())
	require.NoError(t, before.Write(t.Context(), "ledger", 9, "nine"), "acknowledged by one that is master no more")
	require.Zero(t, waitFor(t, first, 50), "WAIT says so")
	require.NoError(t, master.Kill(t.Context()))

	require.ErrorIs(t, after.Write(t.Context(), "ledger", 6, "late"), fencing.ErrStale, "what it has, it guards")
	require.NoError(t, after.Write(t.Context(), "ledger", 8, "late"), "older than 9, and admitted")
}

// waitFor returns how many replicas have what was written, after so many milliseconds at most.
func waitFor(t *testing.T, client *redis.Client, milliseconds int) int64 {
	t.Helper()
	n, err := client.Do(t.Context(), "WAIT", 1, milliseconds).Int64()
	require.NoError(t, err)
	return n
}

func TestEvictionForgetsTheFenceUnlessThePolicySparesIt(t *testing.T) {
	client := dial(t, stores.Redis(t, nil).Addr)
	r := registersOf(t, evalOf(client), "")
	config := func(name, value string) { require.NoError(t, client.ConfigSet(t.Context(), name, value).Err()) }
	for policy, kept := range map[string]bool{"noeviction": true, "volatile-lru": true, "allkeys-lru": false} {
		require.NoError(t, r.Reset(t.Context(), "ledger"))
		require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"))
		config("maxmemory-policy", policy)
		config("maxmemory", "1")
		err := r.Write(t.Context(), "ledger", 10, "ten")
		require.ErrorContains(t, err, "OOM", policy)
		require.NotErrorIs(t, err, redisfence.ErrUncertain)
		config("maxmemory", "0")
		if kept {
			require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "late"), fencing.ErrStale, policy)
			require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"), "10 was not admitted")
		} else {
			require.NoError(t, r.Write(t.Context(), "ledger", 8, "late"), policy)
		}
	}
}

func TestTokensAreComparedInRedisAsInGo(t *testing.T) {
	r := registersOf(t, goRedis(t, stores.Redis(t, nil).Addr), "")
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		a := fencing.Token(1 + random.Int64()>>random.IntN(63))
		b := fencing.Token(1 + random.Int64()>>random.IntN(63))
		if random.IntN(2) == 0 {
			b = max(1, min(a, math.MaxInt64-1)+fencing.Token(random.IntN(3)-1))
		}
		require.NoError(t, r.Guard.Reset(t.Context(), "ledger", a))
		err := r.Write(t.Context(), "ledger", b, "value")
		newest, newestErr := r.Newest(t.Context(), "ledger")
		require.NoError(t, newestErr)
		if b >= a {
			require.NoError(t, err, "%d after %d", b, a)
			require.Equal(t, b, newest)
			continue
		}
		require.ErrorIs(t, err, fencing.ErrStale, "%d after %d", b, a)
		require.Equal(t, a, newest)
	}
}

func TestKeyThatHoldsNoTokenShutsItsResourceUntilReset(t *testing.T) {
	client := dial(t, stores.Redis(t, nil).Addr)
	r := registersOf(t, evalOf(client), "")
	const key = "fence:ledger"
	for what, put := range map[string]func() error{
		"a key of type list": func() error { return client.RPush(t.Context(), key, "7").Err() },
		"a key of type hash": func() error { return client.HSet(t.Context(), key, "token", 7).Err() },
		`"007"`:              func() error { return client.Set(t.Context(), key, "007", 0).Err() },
		`"0"`:                func() error { return client.Set(t.Context(), key, "0", 0).Err() },
		`"-7"`:               func() error { return client.Set(t.Context(), key, "-7", 0).Err() },
		`"7.0"`:              func() error { return client.Set(t.Context(), key, "7.0", 0).Err() },
		`"1e3"`:              func() error { return client.Set(t.Context(), key, "1e3", 0).Err() },
		`" 7"`:               func() error { return client.Set(t.Context(), key, " 7", 0).Err() },
		`"7 "`:               func() error { return client.Set(t.Context(), key, "7 ", 0).Err() },
		`"7 a b"`:            func() error { return client.Set(t.Context(), key, "7 a b", 0).Err() },
		`"00 first"`:         func() error { return client.Set(t.Context(), key, "00 first", 0).Err() },
		`""`:                 func() error { return client.Set(t.Context(), key, "", 0).Err() },
		`"12345678901234567890"`: func() error {
			return client.Set(t.Context(), key, "12345678901234567890", 0).Err()
		},
	} {
		require.NoError(t, client.Del(t.Context(), key).Err())
		require.NoError(t, put())
		before := client.Dump(t.Context(), key).Val()
		for range 2 {
			err := r.Write(t.Context(), "ledger", math.MaxInt64, "unwanted")
			require.ErrorIs(t, err, redisfence.ErrDamaged)
			require.ErrorContains(t, err, `key "fence:ledger": `+what, "the operator has to find it")
			_, err = r.Newest(t.Context(), "ledger")
			require.ErrorIs(t, err, redisfence.ErrDamaged)
		}
		require.Equal(t, before, client.Dump(t.Context(), key).Val(), "it is evidence")
		require.NoError(t, r.Guard.Reset(t.Context(), "ledger", 12))
		require.ErrorIs(t, r.Write(t.Context(), "ledger", 11, "late"), fencing.ErrStale)
		require.NoError(t, r.Write(t.Context(), "ledger", 12, "twelve"))
	}
}

func TestScriptFindsItsKeysAndArgumentsAndReturnsWhatItDoes(t *testing.T) {
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

func TestScriptCannotReachTheFenceByItsVariables(t *testing.T) {
	r := registersOf(t, goRedis(t, stores.Redis(t, nil).Addr), "")
	require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"))
	for _, script := range []string{
		`redis.call("SET", key, 1)`, `redis.call("SET", KEYS[2], 1)`, `redis.call("SET", KEYS[3], 1)`,
		`key = 1`, `token = 1`, `newest = 1`, `began = false`, `history = ""`, `error(key .. "")`, `return #nonce`,
	} {
		_, err := r.Do(t.Context(), "ledger", 9, script, []string{"value:ledger"})
		require.ErrorIs(t, err, redisfence.ErrScript, script)
		require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "late"), fencing.ErrStale, "after %s", script)
	}
}

func TestFenceOfRedisKeepsHistoriesApart(t *testing.T) {
	client := dial(t, stores.Redis(t, nil).Addr)
	of := func(history string) *redisfence.Guard {
		guard, err := redisfence.New(evalOf(client), &redisfence.Options{History: history})
		require.NoError(t, err)
		return guard
	}
	plain, first, second := of(""), of("first"), of("se.co_nd-2")
	write := func(guard *redisfence.Guard, token fencing.Token) error {
		_, err := guard.Do(t.Context(), "ledger", token, `redis.call("SET", KEYS[1], ARGV[1])`, []string{"total"}, token.String())
		return err
	}
	holds := func(want string) {
		t.Helper()
		require.Equal(t, want, client.Get(t.Context(), redisfence.DefaultPrefix+"ledger").Val())
	}

	require.NoError(t, write(plain, 7), "as it was before there were histories")
	holds("7")
	require.ErrorIs(t, write(first, 6), fencing.ErrStale)
	holds("7")
	require.NoError(t, write(first, 7), "equal, and adopted")
	holds("7 first")
	for _, token := range []fencing.Token{6, 7, 8} {
		err := write(second, token)
		var other *fencing.HistoryError
		require.ErrorAs(t, err, &other)
		require.Equal(t, fencing.HistoryError{Token: token, Given: "se.co_nd-2", Stored: "first"}, *other)
		require.NotErrorIs(t, err, fencing.ErrStale)
		holds("7 first")
	}
	require.Equal(t, "7", client.Get(t.Context(), "total").Val(), "no refused script has run")
	require.NoError(t, write(plain, 8))
	holds("8 first")
	require.ErrorIs(t, write(plain, 7), fencing.ErrStale)
	require.NoError(t, write(first, 10))
	newest, err := second.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.EqualValues(t, 10, newest)

	require.NoError(t, second.Reset(t.Context(), "ledger", 3))
	holds("3 se.co_nd-2")
	require.ErrorIs(t, write(first, 11), fencing.ErrOtherHistory)
	require.ErrorIs(t, write(second, 2), fencing.ErrStale)
	require.NoError(t, second.Reset(t.Context(), "ledger", 0))
	holds("0 se.co_nd-2")
	newest, err = second.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.Zero(t, newest)
	require.ErrorIs(t, write(first, 11), fencing.ErrOtherHistory)
	require.NoError(t, write(second, 1))
	holds("1 se.co_nd-2")
	require.NoError(t, plain.Reset(t.Context(), "ledger", 5))
	holds("5")
	require.NoError(t, plain.Reset(t.Context(), "ledger", 0))
	require.Zero(t, client.Exists(t.Context(), redisfence.DefaultPrefix+"ledger").Val())
}

func TestScriptThatFailsSaysWhereAndLeavesWhatItDid(t *testing.T) {
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
			require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "late"), fencing.ErrStale, "9 is admitted")
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
		require.Equal(t, name == "redigo", errors.Is(err, redisfence.ErrUncertain), "redigo does not tell whose error it is")
		require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"), "10 was not admitted")
	}
}

// A mute connection loses the first answer to a script.
type mute struct {
	net.Conn
	lose *atomic.Bool
}

func (m mute) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	if err == nil && strings.Contains(string(b), "\r\neval\r\n") && m.lose.CompareAndSwap(true, false) {
		_, _ = m.Read(make([]byte, 1)) // it has run
		return n, errors.Join(io.ErrUnexpectedEOF, m.Close())
	}
	return n, err
}

func TestLostAnswerOfRedisIsNeitherStaleNorSuccess(t *testing.T) {
	server := stores.Redis(t, nil)
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{
		MaxRetries: -1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Addr)
			return mute{conn, &lose}, err
		},
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	r := registersOf(t, evalOf(client), "")
	require.NoError(t, r.Write(t.Context(), "ledger", 7, "seven"))
	lose.Store(true)
	err := r.Write(t.Context(), "ledger", 9, "nine")
	require.False(t, lose.Load())
	require.ErrorIs(t, err, redisfence.ErrUncertain)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "late"), fencing.ErrStale, "it had run")

	require.NoError(t, server.Kill(t.Context()))
	err = r.Write(t.Context(), "ledger", 9, "unwanted")
	require.ErrorIs(t, err, redisfence.ErrUncertain, "the client does not say whether it was sent")
	require.NotErrorIs(t, err, fencing.ErrStale)
}

// A careless script, or the lack of one, is what one writes instead of the guard.
type carelessRegisters struct {
	client *redis.Client
	prefix string
	fault  string
}

const asDouble = "compares numbers of Lua"

var carelessScriptIsCaught = map[string]string{
	exchanged: "an equal token is admitted",
	sameOnly:  "a newer token is admitted and shuts out the one before",
	asksFirst: "of two writers racing the newer wins",
	asDouble:  "tokens are compared as numbers with all their digits",
}

// What refuses, by fault: n is the newest token as text, t the one that comes.
var carelessCheck = map[string]string{
	exchanged: `not (#n < #t or #n == #t and n < t)`,
	sameOnly:  `n ~= t`,
	asDouble:  `tonumber(t) < tonumber(n)`,
}

func (c carelessRegisters) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	fence, key := c.prefix+"fence:"+resource, c.prefix+"value:"+resource
	stale := func(newest string) error {
		n, err := fencing.ParseToken(newest)
		return errors.Join(err, &fencing.StaleError{Token: token, Newest: n})
	}
	if c.fault == asksFirst {
		newest, err := c.client.Get(ctx, fence).Int64()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return err
		case int64(token) < newest:
			return stale(fencing.Token(newest).String())
		}
		return c.client.MSet(ctx, fence, int64(token), key, value).Err()
	}
	reply, err := c.client.Eval(ctx, `local n, t = redis.call("GET", KEYS[1]), ARGV[1]
		if n and (`+carelessCheck[c.fault]+`) then return n end
		redis.call("SET", KEYS[1], t)
		redis.call("SET", KEYS[2], ARGV[2])
		return ""`, []string{fence, key}, int64(token), value).Text()
	if err == nil && reply != "" {
		err = stale(reply)
	}
	return err
}

func (c carelessRegisters) Value(ctx context.Context, resource string) (string, error) {
	value, err := c.client.Get(ctx, c.prefix+"value:"+resource).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return value, err
}

func (c carelessRegisters) Reset(ctx context.Context, resource string) error {
	return c.client.Del(ctx, c.prefix+"fence:"+resource).Err()
}

type carelessScript struct{ Addr, Fault string }

func TestCarelessScriptFailsTheSuite(t *testing.T) {
	for fault, property := range carelessScriptIsCaught {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			child.RequireFailure(t, "TestSuiteOfACarelessScript", property, carelessScript{stores.Redis(t, nil).Addr, fault})
		})
	}
}

// It fails: TestCarelessScriptFailsTheSuite runs it and looks at how.
func TestSuiteOfACarelessScript(t *testing.T) {
	var c carelessScript
	child.Task(t, &c)
	client := dial(t, c.Addr)
	property := 0
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		property++
		r := carelessRegisters{client, fmt.Sprintf("%d:", property), c.Fault}
		return fencetest.Subject{Open: func(*testing.T) fencetest.Guarded { return r }}
	})
}

func BenchmarkRedis(b *testing.B) {
	client := dial(b, stores.Redis(b, nil).Addr)
	guard, err := redisfence.New(evalOf(client), nil)
	require.NoError(b, err)
	value := strings.Repeat("x", 100)
	sideBySide(b, func() error {
		_, err := guard.Do(b.Context(), "ledger", 7, `redis.call("SET", KEYS[1], ARGV[1])`, []string{"guarded"}, value)
		return err
	}, func() error { return client.Set(b.Context(), "bare", value, 0).Err() })
}

// code is what stands in a file of this package, from the beginning of one text to that of the other.
func code(t *testing.T, file, from, to string) string {
	t.Helper()
	own, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(own), from)
	require.True(t, found)
	rest, _, found = strings.Cut(rest, to)
	require.True(t, found)
	return strings.TrimSpace(from + rest)
}

// shows expects text, indented, in the documentation of a package.
func shows(t *testing.T, name, text string) {
	t.Helper()
	doc, err := os.ReadFile("../../fencing/" + name + "/doc.go")
	require.NoError(t, err)
	want := strings.ReplaceAll("//\t"+strings.ReplaceAll(text, "\n", "\n//\t"), "//\t\n", "//\n")
	require.Contains(t, string(doc), want)
}

// The handler makes its guard as the documentation of httpfence advises.
func TestServiceChecksTheHistoryOfEachRequest(t *testing.T) {
	eval := goRedis(t, stores.Redis(t, nil).Addr)
	server := httptest.NewServer(httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard, err := redisfence.New(eval, &redisfence.Options{History: httpfence.History(r.Context())})
		if err == nil {
			_, err = guard.Do(r.Context(), "ledger", httpfence.Token(r.Context()), `redis.call("INCR", KEYS[1])`, []string{"count"})
		}
		if err != nil && !httpfence.Refuse(w, err) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &httpfence.Transport{Base: base, RefusalIsError: true}}
	put := func(history string, token fencing.Token) error {
		ctx := httpfence.WithHistory(httpfence.WithToken(t.Context(), token), history)
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Body.Close()
	}
	require.NoError(t, put("first", 7))
	var other *fencing.HistoryError
	require.ErrorAs(t, put("second", 7), &other, "the same token, granted by a wiped ensemble")
	require.Equal(t, fencing.HistoryError{Token: 7, Given: "second", Stored: "first"}, *other)
	require.ErrorIs(t, put("first", 6), fencing.ErrStale)
	require.NoError(t, put("", 8), "a client without a history")
	require.NoError(t, put("first", 8))
}
