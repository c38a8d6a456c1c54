// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A writer replaces the data, downgrades its hold so that readers come in and no other writer does, and reads what it has
// written. The gate admits the tokens of all of them until the next writer has written.
//
// Here one process is writer and reader. In a program the reader is another process: a call that waits under a hold of the same
// lock can wait for a writer that waits for that hold.
func ExampleRWMutex() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	m, err := lock.NewRW(client, "/locks/routes", nil)
	if err != nil {
		log.Fatal(err)
	}
	var gate fencing.Gate
	var earlier fencing.Token

	err = m.Do(ctx, func(ctx context.Context, writer *lock.WriteHold) error {
		if err := errors.Join(gate.Admit(writer.Token()), writer.Downgrade(ctx)); err != nil {
			return err
		}
		return m.RDo(ctx, func(_ context.Context, reader *lock.Hold) error {
			earlier = reader.Token()
			fmt.Println("two readers:", writer.Shared(), reader.Shared())
			return errors.Join(gate.AdmitShared(reader.Token()), gate.AdmitShared(writer.Token()))
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	err = m.Do(ctx, func(_ context.Context, writer *lock.WriteHold) error { return gate.Admit(writer.Token()) })
	fmt.Println("next writer:", err)
	fmt.Println("late reader is stale:", errors.Is(gate.AdmitShared(earlier), fencing.ErrStale))
	// Output:
	// two readers: true true
	// next writer: <nil>
	// late reader is stale: true
}
