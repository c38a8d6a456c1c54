// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func newShow() *cobra.Command {
	conn, locks := &connection{}, &serviceAccess{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show PATH",
		Short: "Show the holder of a lock or an election, and its queue",
		Long: `Show the contenders of a lock or an election, the holder first, then the waiters in the
order in which they get the lock: label, host and process, the time at which each joined the
queue, by the clock of its host, the fencing token that it has or will have, the kind of the
program that created its node ("lease" for the lock service), its session, and when its lease
ends unless it is renewed, by the clock of ZooKeeper's leader. The readers of a read/write lock
that hold it together come first. Of a semaphore, the limit precedes the contenders.

The queue is the view of one server, which may lag behind. With --url, PATH is NAMESPACE/KEY,
and of the waiters only the number is known.`,
		Example: "  lockkeeper show /locks/backup --json\n" +
			"  lockkeeper show --url https://locks.example.com --token-file token billing/backup",
		Args: oneArgument("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := locks.check(cmd, conn, args[0]); err != nil {
				return err
			}
			if locks.url != "" {
				return locks.show(cmd, conn, args[0], asJSON)
			}
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
			if state.Limit, state.unit, err = limitOf(ctx, queue); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), state)
			}
			return state.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	conn.addFlags(cmd)
	locks.addFlags(cmd)
	cmd.ValidArgsFunction = conn.complete(locks)
	return cmd
}

// A queueState is the queue of one lock or election.
type queueState struct {
	Path    string       `json:"path"` // with the namespace
	Holder  *contender   `json:"holder"`
	Readers []*contender `json:"readers,omitempty"` // that hold beside the holder: readers, or callers with permits
	Waiters int          `json:"waiters"`           // number of contenders in Queue
	Queue   []*contender `json:"queue"`             // waiters, the next holder first
	Limit   int          `json:"limit,omitempty"`   // of a semaphore or slots

	unit string // what Limit counts
}

func stateOf(path string, contenders []recipes.Contender) queueState {
	state := queueState{Path: path, Queue: []*contender{}}
	shared := true // by all contenders so far
	for i, c := range contenders {
		shared = shared && (c.Shared || c.Permits > 0 && c.Held)
		switch {
		case i == 0:
			state.Holder = contenderOf(c)
		case shared:
			state.Readers = append(state.Readers, contenderOf(c))
		default:
			state.Queue = append(state.Queue, contenderOf(c))
		}
	}
	state.Waiters = len(state.Queue)
	return state
}

// print prints the state as a table.
func (s *queueState) print(out io.Writer) error {
	if s.Limit > 0 {
		if _, err := fmt.Fprintf(out, "limit of %d %s\n", s.Limit, s.unit); err != nil {
			return err
		}
	}
	if s.Holder == nil {
		_, err := fmt.Fprintf(out, "%s is free\n", printablePath(s.Path))
		return err
	}
	cells := [][]string{
		{"", "OWNER", "HOST", "PID", "SINCE", "TOKEN", "KIND", "SESSION", "EXPIRES"},
		s.Holder.cells("holder"),
	}
	for _, c := range s.Readers {
		position := "reader"
		if c.Permits > 0 {
			position = "holder"
		}
		cells = append(cells, c.cells(position))
	}
	for i, c := range s.Queue {
		cells = append(cells, c.cells(fmt.Sprint("waiter ", i+1)))
	}
	if err := printTable(out, cells); err != nil || s.Holder.Revoked == nil {
		return err
	}
	_, err := fmt.Fprintf(out, "the holder has to stop: %s\n", s.Holder.Revoked)
	return err
}

// cells returns the contender as a row of the table.
func (c *contender) cells(position string) []string {
	pid := "-"
	if c.PID != 0 {
		pid = strconv.Itoa(c.PID)
	}
	return []string{position, c.owner(), printable(c.Host), pid, c.since(), c.Token.String(), c.Kind, cmp.Or(c.Session, "-"), clock(c.Expires)}
}
