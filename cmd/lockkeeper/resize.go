// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/lock"
)

func newResize() *cobra.Command {
	conn := &connection{}
	cmd := &cobra.Command{
		Use:                   "resize PATH LIMIT",
		DisableFlagsInUseLine: true,
		Short:                 "Change the limit of a semaphore or of slots",
		Long: `Change the number of permits of a semaphore, or of slots, for all processes that use it:
"lockkeeper show PATH" prints it. A higher limit lets waiters in immediately. A lower limit is
stored only if the permits that it removes are free, no call waits for them, and no removed
slot is in use.

Processes that start later need the new limit in their configuration, or a limit of 0. A path
that has no limit is refused: the first process that uses a semaphore stores one.`,
		Example: "  lockkeeper resize /semaphores/uploads 8",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageErrorf("takes PATH and LIMIT, not %q", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := strconv.Atoi(args[1])
			if err != nil || limit < 1 || limit > lock.MaxPermits {
				return usageErrorf("LIMIT %q is not a number from 1 to %d", args[1], lock.MaxPermits)
			}
			if err := conn.check(); err != nil {
				return err
			}
			client, queue, err := conn.queue(cmd, args[0])
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := conn.bound(cmd.Context())
			defer cancel()
			unit, err := ofKind(queue, func(p *permits.Permits) error { return p.Resize(ctx, limit) })
			if err != nil {
				return err
			}
			return printText(cmd, fmt.Sprintf("%s has a limit of %d %s\n", printablePath(queue.Path()), limit, unit))
		},
	}
	conn.addFlags(cmd)
	cmd.ValidArgsFunction = conn.complete(nil)
	return cmd
}

// ofKind calls f with the permits of the queue, or with the slots if it has these. It returns what they are called.
func ofKind(q *queue.Queue, f func(*permits.Permits) error) (unit string, err error) {
	p, err := permits.New(q, 0)
	if err != nil {
		return "", err
	}
	if err := f(p); !errors.Is(err, permits.ErrNumbered) {
		return "permits", err
	}
	if p, err = permits.NewNumbered(q, 0); err != nil {
		return "", err
	}
	return "slots", f(p)
}

// limitOf returns the limit of the semaphore or the slots at a path, 0 if there are none.
func limitOf(ctx context.Context, q *queue.Queue) (limit int, unit string, err error) {
	unit, err = ofKind(q, func(p *permits.Permits) error {
		limit, err = p.Limit(ctx)
		return err
	})
	if errors.Is(err, permits.ErrNoLimit) {
		return 0, "", nil
	}
	return limit, unit, err
}
