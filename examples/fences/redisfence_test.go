// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
)

// The guard checks the token in the script that writes. A real program has the token from hold.Token, and a Redis that does not
// lose the fence: see package redisfence.
func Example_redis() {
	ctx := context.Background()
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	guard, err := redisfence.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return client.Eval(ctx, script, keys, args...).Result()
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	add := func(token fencing.Token, amount int) (any, error) {
		return guard.Do(ctx, "ledger", token, `return redis.call("INCRBY", KEYS[1], ARGV[1])`, []string{"total"}, amount)
	}

	fmt.Println(add(41, 100))
	fmt.Println(add(42, 10))
	_, err = add(41, 1000) // by the first holder, which was paused and does not know that it lost the lock
	fmt.Println("stale:", errors.Is(err, fencing.ErrStale))
	fmt.Println("total:", client.Get(ctx, "total").Val())
	// Output:
	// 100 <nil>
	// 110 <nil>
	// stale: true
	// total: 110
}
