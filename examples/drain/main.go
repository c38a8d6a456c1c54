// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func main() {
	servers := flag.String("servers", "", "connect string of an ensemble, zk1:2181,zk2:2181/app; empty: a ZooKeeper server in this process")
	lose := flag.Bool("lose", false, "expire the session during the second item; only without -servers")
	itemTime := flag.Duration("item", 300*time.Millisecond, "how long an item takes, less than "+stopTimeout.String())
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := connect(ctx, *servers, *lose, *itemTime)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1) // also ends work that has overrun
	}
	fmt.Println("released, exit")
}

// connect runs the worker on the ensemble that servers names, or on a ZooKeeper server in this process.
func connect(ctx context.Context, servers string, lose bool, itemTime time.Duration) (err error) {
	if flag.NArg() > 0 || lose && servers != "" || itemTime >= stopTimeout {
		return errors.New("usage: drain [-item 300ms] [-servers zk1:2181,zk2:2181/app] or drain [-item 300ms] [-lose]; -h explains the flags")
	}
	var expire func(ctx context.Context, session int64) error // nil unless the session is to expire
	list := []string{servers}
	if servers == "" {
		var ensemble *zktest.Ensemble
		if ensemble, err = zktest.Run(ctx, nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ensemble.Close()) }()
		list = ensemble.Addrs()
		if lose {
			expire = ensemble.Expire
		}
	}
	client, err := recipes.Connect(ctx, list, &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return run(ctx, client, func(ctx context.Context, item int) error {
		fmt.Println("begins item", item)
		if item == 2 && expire != nil {
			if err := expire(ctx, client.SessionID()); err != nil {
				return err
			}
			return process(ctx, item, time.Hour) // only the loss ends it
		}
		return process(ctx, item, itemTime)
	})
}

// process represents the work on an item. Real work would send the token with its writes: see the worker example.
func process(ctx context.Context, item int, itemTime time.Duration) error {
	select {
	case <-time.After(itemTime):
		fmt.Println("finishes item", item)
		return nil
	case <-ctx.Done():
		fmt.Printf("aborts item %d: %v\n", item, context.Cause(ctx))
		return context.Cause(ctx)
	}
}
