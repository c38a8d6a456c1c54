// SPDX-License-Identifier: Apache-2.0

package rendezvous_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/rendezvous"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Two ensembles share the locks of all accounts. Each account's lock is on one of them, for all processes that have the same
// two names.
func ExampleChoose() {
	ctx := context.Background()
	clients := map[string]*recipes.Client{}
	for _, name := range []string{"locks-1", "locks-2"} {
		servers, err := zktest.Run(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = servers.Close() }()
		client, err := recipes.Connect(ctx, servers.Addrs(), &recipes.Options{Owner: name})
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		clients[name] = client
	}

	for _, account := range []string{"ada", "barbara", "grace"} {
		path := "/locks/accounts/" + account
		client, err := rendezvous.Choose(path, clients)
		if err != nil {
			log.Fatal(err)
		}
		mu, err := lock.New(client, path, nil)
		if err != nil {
			log.Fatal(err)
		}
		err = mu.Do(ctx, func(context.Context, *lock.Hold) error {
			fmt.Println(path, "is locked on", client.Owner())
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// /locks/accounts/ada is locked on locks-1
	// /locks/accounts/barbara is locked on locks-2
	// /locks/accounts/grace is locked on locks-1
}
