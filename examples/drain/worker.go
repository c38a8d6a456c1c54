// SPDX-License-Identifier: Apache-2.0

// Drain is a leader-only worker that drains on SIGTERM: it finishes the item that it has begun, releases the leadership, and
// exits. If it loses its term instead, it aborts the item, because another process leads. Stop it with SIGTERM or Ctrl-C, or
// see it lose its term:
//
//	go run ./drain -lose
//
// It uses a ZooKeeper in its own process, or the ensemble that -servers names.
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

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A process of Kubernetes has 30 s from SIGTERM to SIGKILL. These bounds add up to 25 s, and Close takes about one more.
const (
	stopTimeout   = 15 * time.Second // more than an item takes
	resignTimeout = 10 * time.Second // while ZooKeeper is away; a round trip otherwise
)

// itemTime is how long an item takes.
const itemTime = 300 * time.Millisecond

func main() {
	servers := flag.String("servers", "", "connect string of an ensemble, zk1:2181,zk2:2181/app; empty: a ZooKeeper in this process")
	lose := flag.Bool("lose", false, "end the session while the second item is under way; only without -servers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *servers, *lose)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1)
	}
	fmt.Println("released, exit")
}

func run(ctx context.Context, servers string, lose bool) (err error) {
	if flag.NArg() > 0 || lose && servers != "" {
		return errors.New("usage: drain [-servers zk1:2181,zk2:2181/app] or drain [-lose]")
	}
	expire := func(int64) error { return nil }
	list := []string{servers}
	if servers == "" {
		ensemble, err := zktest.Listen(nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ensemble.Close()) }()
		list = ensemble.Servers()
		if lose {
			expire = ensemble.Expire
		}
	}
	client, err := recipes.Connect(ctx, list, &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer client.Close()
	e, err := election.New(client, "/election/drain", &election.Options{StopTimeout: stopTimeout, ResignTimeout: resignTimeout})
	if err != nil {
		return err
	}
	w := &worker{lose: func() error { return expire(client.SessionID()) }}
	return e.Run(ctx, w.work) // nil: ctx has ended, and the leadership is released
}

// A worker works off items while it leads.
type worker struct {
	next int          // the last item that was begun
	lose func() error // called once while an item is under way
}

// work is one term. Two contexts part what ends it: ctx is done on SIGTERM and when the term is lost, and item only when
// the term is lost.
func (w *worker) work(ctx context.Context, term *election.Term) error {
	item, cancel := term.Context(context.WithoutCancel(ctx))
	defer cancel()
	fmt.Println("leads with token", term.Token())
	for ctx.Err() == nil {
		w.next++
		if err := w.process(item, w.next); err != nil {
			return err // the loss of the term: Run campaigns again
		}
	}
	fmt.Println("stops:", context.Cause(ctx))
	return context.Cause(ctx)
}

// process stands for the work on an item. What it writes carries the token, see the worker example.
func (w *worker) process(ctx context.Context, number int) error {
	fmt.Println("begins item", number)
	if number == 2 {
		if err := w.lose(); err != nil {
			return err
		}
	}
	select {
	case <-time.After(itemTime):
		fmt.Println("finishes item", number)
		return nil
	case <-ctx.Done():
		fmt.Printf("aborts item %d: %v\n", number, context.Cause(ctx))
		return context.Cause(ctx)
	}
}
