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
		Short:                 "Change the limit of a semaphore",
		Long: `Change the number of permits of a semaphore for all processes that use it: "lockkeeper show
PATH" prints it. A higher limit lets waiters in immediately. A lower limit is stored only if
the permits that it removes are free and no call waits for them.

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
			permits, err := permits.New(queue, 0)
			if err != nil {
				return err
			}
			ctx, cancel := conn.bound(cmd.Context())
			defer cancel()
			if err := permits.Resize(ctx, limit); err != nil {
				return err
			}
			return printText(cmd, fmt.Sprintf("%s has a limit of %d permits\n", printable(queue.Path()), limit))
		},
	}
	conn.addFlags(cmd)
	cmd.ValidArgsFunction = conn.complete(nil)
	return cmd
}

// limitOf returns the limit of the semaphore at a path, 0 if there is none.
func limitOf(ctx context.Context, q *queue.Queue) (int, error) {
	p, err := permits.New(q, 0)
	if err != nil {
		return 0, err
	}
	limit, err := p.Limit(ctx)
	if errors.Is(err, permits.ErrNoLimit) {
		return 0, nil
	}
	return limit, err
}
