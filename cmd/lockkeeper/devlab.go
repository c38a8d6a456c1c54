// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/lab"
	"github.com/lockkeeper/lockkeeper/service"
)

const (
	labServers = 3 // so that a follower can lose its leader
	labTicks   = 8 // of a session timeout of the contenders, so that a holder is notified in time
)

// serveLab serves a lock service and the laboratory's page at an address, until ctx ends. rest is what dev does beside. The end of
// the service or of the page ends the others.
func serveLab(ctx context.Context, l *lab.Lab, c lab.Config, rest func(context.Context), stdout, stderr io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	failures := make(chan error, 2)
	part := func(f func() error) {
		running.Go(func() {
			defer stop()
			failures <- f()
		})
	}
	served := make(chan string, 1)
	part(func() error {
		return service.Run(ctx, service.Config{
			Dev: true, Servers: c.Ensemble.Addrs(), Listen: "127.0.0.1:0", Started: func(url string) { served <- url },
			Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	})
	select {
	case c.Service = <-served:
		c.Started = func(page string) {
			// A shell takes these lines for comments. A reader that has gone is no reason to stop.
			_, _ = fmt.Fprintf(stdout, "# laboratory: %s\n# lock service: %s/\n", page, c.Service)
		}
		part(func() error { return l.Run(ctx, c) })
		running.Go(func() { rest(ctx) })
	case <-ctx.Done():
	}
	running.Wait()
	stop()
	close(failures)
	var err error
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	if errors.Is(err, context.Canceled) {
		return nil // an interrupt during the start
	}
	return err
}
