// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/service/client"
)

func Example() {
	url, stop := development() // or the URL of your service
	defer stop()
	locks, err := client.New(url, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	var orders fencing.Gate // in the resource: it rejects stale tokens
	err = locks.Do(ctx, "team", "orders", func(_ context.Context, hold *client.Hold) error {
		if err := orders.Admit(hold.Token()); err != nil {
			return err
		}
		fmt.Println("order is written")
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	if err := locks.Close(); err != nil {
		log.Print(err)
	}
	// Output: order is written
}

// development starts a service that keeps all locks in memory.
func development() (url string, stop func()) {
	started, ended := make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- service.Run(ctx, service.Config{
			Dev: true, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Started: func(url string) { started <- url },
		})
	}()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			log.Print(err)
		}
	}
	select {
	case url = <-started:
	case err := <-ended:
		log.Fatal(err)
	}
	return url, stop
}
