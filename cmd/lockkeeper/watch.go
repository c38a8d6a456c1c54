// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/queue"
)

func newWatch() *cobra.Command {
	conn, locks := &connection{}, &serviceAccess{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "watch PATH",
		Short: "Print the holder of a lock or an election whenever it changes",
		Long: `Print the holder of a lock or an election, and then a line for each change, until
interrupted. Between two changes in quick succession, holders can be skipped.

The holder is the view of one server, which may lag behind. The watch continues across lost
connections and sessions. With --url, PATH is NAMESPACE/KEY.`,
		Example: "  lockkeeper watch /election/worker\n" +
			"  lockkeeper watch /election/worker --json | jq --unbuffered -r .holder.owner",
		Args: oneArgument("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			printTo := (*change).print
			if asJSON {
				printTo = (*change).printJSON
			}
			w := &watch{path: args[0], report: func(c *change) error { return printTo(c, cmd.OutOrStdout()) }}
			if err := locks.check(cmd, conn, args[0]); err != nil {
				return err
			}
			if locks.url != "" {
				return locks.watch(cmd.Context(), conn, w, cmd.ErrOrStderr())
			}
			client, queue, err := conn.queue(cmd, args[0])
			if err != nil {
				return err
			}
			defer client.Close()
			w.path = queue.Path()
			return w.run(cmd.Context(), queue)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on each line")
	conn.addFlags(cmd)
	locks.addFlags(cmd)
	cmd.ValidArgsFunction = conn.complete(locks)
	return cmd
}

// A change is the holder of a lock or an election from a time on.
type change struct {
	Time   time.Time  `json:"time"` // at which it was noticed
	Path   string     `json:"path"` // with the namespace
	Holder *contender `json:"holder"`
}

// state returns what a line prints of the holder. A renewal of a lease does not change it.
func (c *change) state() string {
	if c.Holder == nil {
		return "free"
	}
	state := fmt.Sprintf("held by %s, token %v, kind %s, since %s", c.Holder.owner(), c.Holder.Token, c.Holder.Kind, c.Holder.since())
	if c.Holder.Revoked != nil {
		state += ", " + c.Holder.Revoked.String()
	}
	return state
}

func (c *change) print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s  %s  %s\n", c.Time.Format(time.DateTime), printablePath(c.Path), c.state())
	return err
}

func (c *change) printJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(c)
}

// A watch reports the changes of a holder.
type watch struct {
	path   string // with the namespace
	report func(*change) error
	last   string // the state that was reported
}

// is reports the holder, nil for none, if it has changed.
func (w *watch) is(holder *contender) error {
	now := &change{Time: time.Now(), Path: w.path, Holder: holder}
	state := now.state()
	if state == w.last {
		return nil
	}
	w.last = state
	return w.report(now)
}

// run reports each change of the front of a queue, until ctx is done.
func (w *watch) run(ctx context.Context, queue *queue.Queue) error {
	for {
		front, err := queue.Front(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		var holder *contender
		if !front.Empty {
			holder = contenderOf(front.Contender)
		}
		if err := w.is(holder); err != nil {
			return err
		}
		select {
		case <-front.Changed:
		case <-ctx.Done():
			return nil
		}
	}
}
