// SPDX-License-Identifier: Apache-2.0

package objectfence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// Two clients hold the lock one after the other; the first has not been notified of its loss yet. In production the store is
// a bucket.
func Example() {
	guard, err := objectfence.New(&objectfence.Memory{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, first, second := context.Background(), fencing.Token(4294967311), fencing.Token(4294967330)
	fmt.Println(guard.Put(ctx, "2026/total", first, []byte("opened by the first")))
	fmt.Println(guard.Put(ctx, "2026/total", second, []byte("corrected by the second")))
	err = guard.Put(ctx, "2026/total", first, []byte("closed by the first"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, fencing.ErrStale))
	body, err := guard.Get(ctx, "2026/total")
	fmt.Println(string(body), err)
	// Output:
	// <nil>
	// <nil>
	// objectfence: put "2026/total" with token 4294967311: fencing: token 4294967311 is stale: 4294967330 has been admitted
	// true
	// corrected by the second <nil>
}
