// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/lock"
)

// A cache entry has expired, and every request notices. One rebuilds it; the others serve the old value and do not wait. Two
// rebuilds would only waste work, so that no token is needed.
func Example_cacheRebuild() {
	ctx := context.Background()
	client := connect(ctx)
	defer client.Close()
	mu, err := lock.New(client, "/locks/cache/prices", nil)
	if err != nil {
		log.Fatal(err)
	}
	// request returns the hold of a request that has to rebuild the entry, nil for the others.
	request := func() *lock.Hold {
		hold, err := mu.TryLock(ctx)
		switch {
		case errors.Is(err, lock.ErrLocked):
			fmt.Println("another process rebuilds the entry: serving the old value")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("rebuilding")
		}
		return hold
	}
	first := request()
	request()
	if err := first.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// rebuilding
	// another process rebuilds the entry: serving the old value
}
