// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A holder that crashes may have requests under way. The next one waits, and revokes its credentials, before it begins.
func ExampleOptions_fence() {
	ctx := context.Background()
	user := func(name string) (*recipes.Client, *lock.Mutex) {
		client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), &recipes.Options{Owner: name})
		if err != nil {
			log.Fatal(err)
		}
		mu, err := lock.New(client, "/locks/disk", &lock.Options{
			LockDelay: 10 * time.Millisecond,
			Fence: func(_ context.Context, former recipes.FormerHolder) error {
				fmt.Printf("%s revokes the credentials of %s\n", name, former.Owner)
				return nil // if this cannot be done, return an error: the lock is not taken then
			},
		})
		if err != nil {
			log.Fatal(err)
		}
		return client, mu
	}
	work := func(name string) func(context.Context, *lock.Hold) error {
		return func(context.Context, *lock.Hold) error { fmt.Println(name, "works"); return nil }
	}

	first, mu := user("pod-1")
	if err := mu.Do(ctx, work("pod-1")); err != nil { // releases the lock
		log.Fatal(err)
	}
	second, mu := user("pod-2")
	if _, err := mu.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	second.Close() // and the lock was not unlocked, as if the process had crashed
	third, mu := user("pod-3")
	if err := mu.Do(ctx, work("pod-3")); err != nil {
		log.Fatal(err)
	}
	first.Close()
	third.Close()
	// Output:
	// pod-1 works
	// pod-3 revokes the credentials of pod-2
	// pod-3 works
}
