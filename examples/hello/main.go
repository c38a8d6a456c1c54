// SPDX-License-Identifier: Apache-2.0

// Hello is the program that the README shows. It campaigns for the leadership of /election/hello, works while it leads, and
// releases the leadership when it receives SIGINT or SIGTERM. It needs a ZooKeeper server on localhost:2181:
//
//	go install github.com/lockkeeper/lockkeeper/cmd/lockkeeper@latest && lockkeeper dev
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, []string{"localhost:2181"}, func() {}); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, servers []string, onLead func()) error {
	client, err := recipes.Connect(ctx, servers, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	hello, err := election.New(client, "/election/hello", nil)
	if err != nil {
		return err
	}
	return hello.Run(ctx, func(ctx context.Context, term *election.Term) error {
		log.Println("leading with token", term.Token())
		onLead()
		<-ctx.Done() // work here until the term is lost or the program ends
		return context.Cause(ctx)
	})
}
