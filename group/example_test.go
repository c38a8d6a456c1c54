// SPDX-License-Identifier: Apache-2.0

package group_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Two brokers register, and one of them moves and then leaves. Another process follows.
func Example() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	brokers, err := group.New(client, "/example/brokers", nil)
	if err != nil {
		log.Fatal(err)
	}
	first, err := brokers.Join(ctx, "broker-1", []byte("10.0.0.1:9092"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := first.Leave(ctx); err != nil {
			log.Print(err)
		}
	}()
	second, err := brokers.Join(ctx, "broker-2", []byte("10.0.0.2:9092"))
	if err != nil {
		log.Fatal(err)
	}

	// Each step is taken when the one before it has been seen.
	steps := []func() error{
		func() error { return second.Update(ctx, []byte("10.0.0.9:9092")) },
		func() error { return second.Leave(ctx) },
	}
	for change, err := range brokers.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range change.Joined {
			fmt.Printf("%s joined: %s\n", m.ID, m.Metadata)
		}
		for _, m := range change.Updated {
			fmt.Printf("%s is updated: %s\n", m.ID, m.Metadata)
		}
		for _, m := range change.Left {
			fmt.Printf("%s left, %d remain\n", m.ID, len(change.Members))
		}
		if len(steps) == 0 {
			break
		}
		if err := steps[0](); err != nil {
			log.Fatal(err)
		}
		steps = steps[1:]
	}
	// Output:
	// broker-1 joined: 10.0.0.1:9092
	// broker-2 joined: 10.0.0.2:9092
	// broker-2 is updated: 10.0.0.9:9092
	// broker-2 left, 1 remain
}
