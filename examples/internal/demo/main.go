// SPDX-License-Identifier: Apache-2.0

// Package demo puts an example on: a ZooKeeper server in this process, several processes that all play the same part,
// and a switch that freezes the one that leads. It is not what an example is about: begin with the example's own file.
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
)

// Timeout is the session timeout of the players: how long the leader is missed before another leads.
const Timeout = 2 * time.Second

// Main puts the example on and ends the process. In each of the processes that it starts it calls play.
func Main(about string, play func(ctx context.Context, p *Player) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, about, play)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, about string, play func(context.Context, *Player) error) error {
	if p, err := playerOf(os.Getenv(partVariable)); p != nil || err != nil {
		if err != nil {
			return err
		}
		return p.play(ctx, play)
	}
	flags := flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
	players := flags.Int("players", 3, "how many processes play")
	freeze := flags.Bool("freeze", false, "throw the switch by itself: freeze the leader, let it go on once another has\nwritten, and end when its late write has been refused")
	flags.Usage = func() {
		_, _ = fmt.Fprintf(flags.Output(), "%s\n\n", about)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w (-h lists the flags)", err)
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q (-h lists the flags)", flags.Arg(0))
	case *players < 2 || *players > 9:
		return fmt.Errorf("-players %d: want 2 to 9, so that another can take over (-h lists the flags)", *players)
	}
	d, err := open(about, *players)
	if err != nil {
		return err
	}
	if *freeze {
		err = d.script(ctx)
	} else {
		err = d.audience(ctx, os.Stdin)
	}
	return errors.Join(err, d.close())
}
