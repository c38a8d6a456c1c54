// SPDX-License-Identifier: Apache-2.0

// Package demo runs an example in several worker processes against a ZooKeeper server in the process that supervises them,
// and freezes the leader on request. An example does not depend on it: read the example first.
//
// The supervisor follows the worker processes by the messages that they log with [log/slog]: "leading" for a new leader, of
// which an example can have several, "started" before a write is prepared, then "written" or "stale write rejected".
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/flags"
)

// sessionTimeout is short, so that another process leads soon after the leader was frozen.
const sessionTimeout = 2 * time.Second

// Main runs a demo and ends the process. It calls example in each worker process that it starts.
func Main(about string, example func(ctx context.Context, p *Process) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, about, example)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, about string, example func(context.Context, *Process) error) error {
	if p, err := processOf(os.Getenv(processVariable)); p != nil || err != nil {
		if err != nil {
			return err
		}
		return p.run(ctx, example)
	}
	set := flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
	processes := set.Int("processes", 3, "number of worker processes")
	freeze := set.Bool("freeze", false, "freeze the leader, let it continue after another has written,\nand exit when its stale write has been rejected")
	chroot := set.String("chroot", "", "chroot of the processes in ZooKeeper, such as /app: they write nothing outside it")
	switch err := flags.Parse(set, os.Args[1:], os.Stdout, about); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *processes < 2 || *processes > 9:
		return fmt.Errorf("-processes %d: want 2 to 9, so that another can take over (-h lists the flags)", *processes)
	}
	s, err := start(about, *processes, *chroot)
	if err != nil {
		return err
	}
	if *freeze {
		err = s.script(ctx)
	} else {
		err = s.interactive(ctx, os.Stdin)
	}
	return errors.Join(err, s.close())
}
