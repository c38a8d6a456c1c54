// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A member consumes its partitions until the process stops. The token of each ownership is passed to the resource that is written.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := recipes.Connect(ctx, []string{os.Getenv("ZK_SERVERS")}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	a, err := assign.New(client, "/orders", &assign.Options{
		ID: "worker-7", Partitions: []string{"orders-0", "orders-1"}, RebalanceWait: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	var begun sync.WaitGroup
	begun.Add(2)
	go func() {
		begun.Wait()
		for _, o := range a.Owned() {
			fmt.Println("owns", o.Partition())
		}
		stop() // as a SIGTERM does
	}()
	err = a.Run(ctx, func(ctx context.Context, o *assign.Ownership) error {
		begun.Done()
		<-ctx.Done() // consume o.Partition() until then, and pass o.Token() with each write
		return nil
	})
	fmt.Println("released:", err)
	// Output:
	// owns orders-0
	// owns orders-1
	// released: <nil>
}

// An assignment function of your own decides which member gets a partition, and not who owns it: it cannot make two owners.
func ExampleBalanced() {
	input := assign.Input{
		Partitions: []string{"a", "b", "c", "d", "e", "f"},
		Members:    []assign.Member{{ID: "large", Weight: 2}, {ID: "new", Weight: 1}},
		Current:    map[string]string{"a": "large", "b": "large", "c": "large", "d": "large", "e": "large", "f": "large"},
	}
	assigned, err := assign.Balanced(input)
	fmt.Println(assigned, err)
	// Output: map[a:large b:large c:large d:large e:new f:new] <nil>
}
