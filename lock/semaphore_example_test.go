// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Jobs of all processes share four connections to a database. A job that needs three of them is not overtaken by those that
// need one. A TryAcquire under a hold does not wait; an Acquire could wait for a process that does the same.
func ExampleSemaphore() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	connections, err := lock.NewSemaphore(client, "/locks/connections", 4, nil)
	if err != nil {
		log.Fatal(err)
	}

	err = connections.Do(ctx, 3, func(ctx context.Context, _ *lock.Permits) error {
		_, err := connections.TryAcquire(ctx, 2)
		fmt.Println("two more:", errors.Is(err, lock.ErrLocked))
		one, err := connections.TryAcquire(ctx, 1)
		if err != nil {
			return err
		}
		fmt.Println("one more: ok")
		return one.Release(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("resize:", connections.Resize(ctx, 2))
	_, err = connections.Acquire(ctx, 3)
	fmt.Println(err)
	// Output:
	// two more: true
	// one more: ok
	// resize: <nil>
	// lock: claim /locks/connections: weight of 3 permits: must be 1 to 2
}
