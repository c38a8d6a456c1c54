// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func newWatch() *cobra.Command {
	conn := &connection{}
	cmd := &cobra.Command{
		Use:   "watch PATH",
		Short: "Print the holder of a lock or an election whenever it changes",
		Long: `Print the holder of a lock or an election, and then a line for each change, until
interrupted. Between two changes in quick succession, holders can be skipped.

The holder is the view of one server, which may lag behind. The watch continues across lost
connections and sessions.`,
		Example: "  lockkeeper watch /election/worker",
		Args:    oneArgument("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, queue, err := conn.queue(cmd, args[0])
			if err != nil {
				return err
			}
			defer client.Close()
			return watch(cmd.Context(), queue, func(text string) error { return printText(cmd, text) })
		},
	}
	conn.addFlags(cmd)
	return cmd
}

// watch prints a line for each change of the front of the queue, until ctx is done.
func watch(ctx context.Context, queue *recipes.Queue, print func(text string) error) error {
	last := ""
	for {
		front, err := queue.Front(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		state := "free"
		if !front.Empty {
			c := contenderOf(front.Contender)
			state = fmt.Sprintf("held by %s, token %v, kind %s, since %s", c.owner(), c.Token, c.Kind, c.since())
		}
		if state != last {
			last = state
			if err := print(fmt.Sprintf("%s  %s  %s\n", time.Now().Format(time.DateTime), printable(queue.Path()), state)); err != nil {
				return err
			}
		}
		select {
		case <-front.Changed:
		case <-ctx.Done():
			return nil
		}
	}
}
