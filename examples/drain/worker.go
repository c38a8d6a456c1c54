// SPDX-License-Identifier: Apache-2.0

// Drain is a leader-only worker that drains on SIGTERM: it finishes the item that it has begun, releases the leadership, and
// exits. If it loses its term instead, it aborts the item, because another process can lead. Stop it with SIGTERM or Ctrl-C,
// or let it lose its term:
//
//	go run ./drain -lose
//
// worker.go is the whole worker. main.go has the flags and the simulated items.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Kubernetes gives a process 30 s from SIGTERM to SIGKILL. These bounds add up to 25 s, and Close takes about one more.
const (
	stopTimeout   = 15 * time.Second // more than an item takes
	resignTimeout = 10 * time.Second // while ZooKeeper is unavailable; otherwise a round trip
)

// run campaigns until ctx is done, and processes items during each term. It returns nil if the leadership is released.
// It closes the client, unless the error is election.ErrOverrun: then exit the process.
func run(ctx context.Context, client *recipes.Client, process func(ctx context.Context, item int) error) (err error) {
	defer func() {
		// Work that has overrun still runs. Close would delete its node, and another process would lead beside it.
		if !errors.Is(err, election.ErrOverrun) {
			client.Close()
		}
	}()
	e, err := election.New(client, "/election/drain", &election.Options{StopTimeout: stopTimeout, ReleaseTimeout: resignTimeout})
	if err != nil {
		return err
	}
	w := &worker{process: process}
	return e.Run(ctx, w.work)
}

// A worker processes items while it leads.
type worker struct {
	item    int                                       // the last item that was begun
	process func(ctx context.Context, item int) error // must return soon after its ctx is done
}

// work is one term. Its two contexts differ in what ends them: ctx is done on SIGTERM and when the term is lost, term only
// when the term is lost.
func (w *worker) work(ctx context.Context, won *election.Term) error {
	term, cancel := won.Context(context.WithoutCancel(ctx))
	defer cancel()
	fmt.Println("leads with token", won.Token())
	for ctx.Err() == nil {
		w.item++
		if err := w.process(term, w.item); err != nil {
			return err // the term is lost: Run campaigns again
		}
	}
	fmt.Println("stops:", context.Cause(ctx))
	return context.Cause(ctx)
}
