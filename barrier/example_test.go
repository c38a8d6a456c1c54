// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A migration holds the workers back until it is done.
func ExampleBarrier() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	migration, err := barrier.New(client, "/example/migration", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := migration.Set(ctx); err != nil {
		log.Fatal(err)
	}
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			if err := migration.Wait(ctx); err != nil {
				log.Fatal(err)
			}
			fmt.Println("a worker begins")
		})
	}
	fmt.Println("the migration is done")
	if err := migration.Remove(ctx); err != nil {
		log.Fatal(err)
	}
	workers.Wait()
	// Output:
	// the migration is done
	// a worker begins
	// a worker begins
	// a worker begins
}

// Three workers compute in phases: none begins a phase before all have finished the one before it.
func ExampleDouble() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	phases, err := barrier.NewDouble(client, "/example/phases", 3, nil)
	if err != nil {
		log.Fatal(err)
	}
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			for range 2 {
				round, err := phases.Enter(ctx)
				if err != nil {
					log.Fatal(err)
				}
				fmt.Println("computing phase", round.Number())
				if err := round.Leave(ctx); err != nil {
					log.Fatal(err)
				}
			}
		})
	}
	workers.Wait()
	// Output:
	// computing phase 1
	// computing phase 1
	// computing phase 1
	// computing phase 2
	// computing phase 2
	// computing phase 2
}
