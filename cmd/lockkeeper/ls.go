// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func newLs() *cobra.Command {
	conn, locks := &connection{}, &serviceAccess{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks and elections below a path",
		Long: `List the locks and elections at or below a path, "/" by default, that have a holder: its
label, the number of waiters, the time at which the holder joined the queue, by the clock of
its host, its fencing token, and the kind of the program that created its node. Locks and
elections have the same nodes, so the list does not tell them apart. It is empty for a path that
does not exist: servers delete the nodes of unused locks.

The list is the view of one server, which may lag behind. With --url, PREFIX is
NAMESPACE/ and the beginning of a key, which may be empty.`,
		Example: "  lockkeeper ls /locks\n" +
			"  lockkeeper ls --url https://locks.example.com --token-file token billing/",
		Args: atMostOneArgument("PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := locks.check(cmd, conn); err != nil {
				return err
			}
			if locks.url != "" {
				return locks.ls(cmd, conn, args, asJSON)
			}
			prefix := "/"
			if len(args) > 0 {
				prefix = args[0]
			}
			if err := absolute(prefix); err != nil {
				return err
			}
			client, err := conn.connect(cmd.Context(), "", cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer client.Close()
			w, err := newWalk(cmd.Context(), client, prefix)
			if err != nil {
				return err
			}
			rows, unread, err := conn.rows(cmd.Context(), client, w.queues())
			if err != nil {
				return err
			}
			printed := printRows(cmd.OutOrStdout(), rows, asJSON)
			return errors.Join(append(append(w.unlisted, unread...), printed)...)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	conn.addFlags(cmd)
	locks.addFlags(cmd)
	cmd.ValidArgsFunction = conn.complete(locks)
	return cmd
}

// A listRow is one lock or election.
type listRow struct {
	Path    string     `json:"path"`
	Holder  *contender `json:"holder"`
	Waiters int        `json:"waiters"`
}

// rows reads the holder of each queue. It omits queues that are empty by then, and those that it cannot read, for which it returns
// unread. If no server answers, or ctx ends, err is set.
func (c *connection) rows(ctx context.Context, client *recipes.Client, queues []listed) (rows []listRow, unread []error, err error) {
	type result struct {
		row listRow
		err error
	}
	results, err := each(ctx, queues, func(q listed) result {
		row, err := c.row(ctx, client, q)
		return result{row, err}
	})
	if err != nil {
		return nil, nil, err
	}
	rows = make([]listRow, 0, len(queues))
	for _, r := range results {
		switch {
		case r.err == nil:
			rows = append(rows, r.row)
		case errors.Is(r.err, queue.ErrEmpty):
		case unanswered(r.err):
			return nil, nil, r.err
		default:
			unread = append(unread, r.err)
		}
	}
	return rows, unread, nil
}

// row reads the holder of a queue, and all contenders only if some can hold beside others: then their number differs from the number of the
// waiters.
func (c *connection) row(ctx context.Context, client *recipes.Client, l listed) (listRow, error) {
	if l.path == "/" {
		err := fmt.Errorf("its child %q has the name of a contender, and no lock has the path \"/\"", l.contenders[0])
		return listRow{}, &recipes.Error{Op: "read", Path: client.Path(l.path), Err: err}
	}
	q, err := queue.New(client, l.path, nil)
	if err != nil {
		return listRow{}, err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if slices.ContainsFunc(l.contenders, sharingName.MatchString) {
		contenders, err := q.Contenders(ctx)
		state := stateOf(l.path, contenders)
		if err == nil && state.Holder == nil {
			err = queue.ErrEmpty
		}
		return listRow{l.path, state.Holder, state.Waiters}, err
	}
	holder, err := q.First(ctx)
	return listRow{l.path, contenderOf(holder), len(l.contenders) - 1}, err
}

func printRows(out io.Writer, rows []listRow, asJSON bool) error {
	if asJSON {
		return printJSON(out, rows)
	}
	if len(rows) == 0 {
		return nil
	}
	cells := [][]string{{"PATH", "HOLDER", "WAITERS", "SINCE", "TOKEN", "KIND"}}
	for _, r := range rows {
		cells = append(cells, []string{
			printablePath(r.Path), r.Holder.owner(), strconv.Itoa(r.Waiters), r.Holder.since(), r.Holder.Token.String(), r.Holder.Kind,
		})
	}
	return printTable(out, cells)
}
