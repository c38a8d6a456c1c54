// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// registers are values in Redis, behind a guard in the same server.
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
		return "", err // it also checks the name
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
						killDuringWrite(t, server, g.(registers), resource, token, value)
					},
				}
			})
		})
	}
}

// killDuringWrite kills the server while the script runs, after its write. The client takes no step between check and write.
func killDuringWrite(t *testing.T, server *stores.Server, r registers, resource string, token fencing.Token, value string) {
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

func TestKeyWithoutTokenClosesItsResourceUntilReset(t *testing.T) {
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
			require.ErrorContains(t, err, `key "fence:ledger": `+what, "the error names the key")
			_, err = r.Newest(t.Context(), "ledger")
			require.ErrorIs(t, err, redisfence.ErrDamaged)
		}
		require.Equal(t, before, client.Dump(t.Context(), key).Val(), "the damaged key is not changed")
		require.NoError(t, r.Guard.Reset(t.Context(), "ledger", 12))
		require.ErrorIs(t, r.Write(t.Context(), "ledger", 11, "stale"), fencing.ErrStale)
		require.NoError(t, r.Write(t.Context(), "ledger", 12, "twelve"))
	}
}

func TestFenceOfRedisDistinguishesHistories(t *testing.T) {
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

	require.NoError(t, write(plain, 7), "a guard without a history")
	holds("7")
	require.ErrorIs(t, write(first, 6), fencing.ErrStale)
	holds("7")
	require.NoError(t, write(first, 7), "an equal token is admitted, and the history adopted")
	holds("7 first")
	for _, token := range []fencing.Token{6, 7, 8} {
		err := write(second, token)
		var other *fencing.HistoryError
		require.ErrorAs(t, err, &other)
		require.Equal(t, fencing.HistoryError{Token: token, Given: "se.co_nd-2", Stored: "first"}, *other)
		require.NotErrorIs(t, err, fencing.ErrStale)
		holds("7 first")
	}
	require.Equal(t, "7", client.Get(t.Context(), "total").Val(), "no rejected script has run")
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

// The handler creates its guard as the documentation of httpfence shows.
func TestServiceChecksTheHistoryOfEachRequest(t *testing.T) {
	eval := goRedis(t, stores.Redis(t, nil).Addr)
	server := httptest.NewServer(httpfence.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard, err := redisfence.New(eval, &redisfence.Options{History: fencing.HistoryFromContext(r.Context())})
		if err == nil {
			_, err = guard.Do(r.Context(), "ledger", fencing.TokenFromContext(r.Context()), `redis.call("INCR", KEYS[1])`, []string{"count"})
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
		ctx := fencing.WithHistory(fencing.WithToken(t.Context(), token), history)
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
	require.ErrorAs(t, put("second", 7), &other, "the same token of another history")
	require.Equal(t, fencing.HistoryError{Token: 7, Given: "second", Stored: "first"}, *other)
	require.ErrorIs(t, put("first", 6), fencing.ErrStale)
	require.NoError(t, put("", 8), "a client without a history")
	require.NoError(t, put("first", 8))
}
