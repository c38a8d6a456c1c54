// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func newShow() *cobra.Command {
	conn := &connection{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show PATH",
		Short: "Show the holder of a lock or an election, and its queue",
		Long: `Show the contenders of a lock or an election, the holder first, then the waiters in the
order in which they get the lock: label, host and process, the time at which each joined the
queue, by the clock of its host, the fencing token that it has or will have, the kind of the
program that created its node, and its session.

The queue is the view of one server, which may lag behind.`,
		Example: "  lockkeeper show /locks/backup --json",
		Args:    oneArgument("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, queue, err := conn.queue(cmd, args[0])
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := conn.bound(cmd.Context())
			defer cancel()
			contenders, err := queue.Contenders(ctx)
			if err != nil {
				return err
			}
			state := stateOf(queue.Path(), contenders)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), state)
			}
			return state.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	conn.addFlags(cmd)
	return cmd
}

// A queueState is the queue of one lock or election.
type queueState struct {
	Path    string       `json:"path"` // with the namespace
	Holder  *contender   `json:"holder"`
	Waiters []*contender `json:"waiters"` // the next holder first
}

func stateOf(path string, contenders []recipes.Contender) queueState {
	state := queueState{Path: path, Waiters: []*contender{}}
	for i, c := range contenders {
		if i == 0 {
			state.Holder = contenderOf(c)
		} else {
			state.Waiters = append(state.Waiters, contenderOf(c))
		}
	}
	return state
}

// print prints the state as a table.
func (s *queueState) print(out io.Writer) error {
	if s.Holder == nil {
		_, err := fmt.Fprintf(out, "%s is free\n", printable(s.Path))
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tOWNER\tHOST\tPID\tSINCE\tTOKEN\tKIND\tSESSION")
	write := func(position string, c *contender) {
		pid := "-"
		if c.PID != 0 {
			pid = fmt.Sprint(c.PID)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\t%s\t%s\n", position, c.owner(), printable(c.Host), pid, c.since(), c.Token, c.Kind, c.Session)
	}
	write("holder", s.Holder)
	for i, c := range s.Waiters {
		write(fmt.Sprint("waiter ", i+1), c)
	}
	return table.Flush()
}
