// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func newRelease() *cobra.Command {
	args := &releaseArguments{}
	cmd := &cobra.Command{
		Use:                   "release PATH --token TOKEN --reason TEXT --force",
		DisableFlagsInUseLine: true,
		Short:                 "Take a lock or a leadership from its holder",
		Long: `Delete the node of the first contender of a lock or an election, if its token is TOKEN:
"lockkeeper show PATH" prints it. If another contender is in front, nothing is deleted.

The next contender is granted the lock immediately. The old holder is notified only when
its client notices that its node is gone, as a rule within a sixth of its session timeout.
Until then, or if it is another library's client, it goes on, and only a resource that
checks the token is safe. So stop the holder first if you can: that releases its lock.

With --url, PATH is NAMESPACE/KEY. In mode safe the holder is notified, and the lock is
granted to the next contender once the holder must have stopped.`,
		Example: `  lockkeeper release /locks/backup --token 4294967312 --reason "db7 hangs, OPS-1142" --force
  lockkeeper release --url https://locks.example.com --token-file token billing/backup \
      --token 4294967312 --reason "db7 hangs, OPS-1142" --force`,
		Args: oneArgument("PATH"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := args.check(cmd, paths[0]); err != nil {
				return err
			}
			if args.service.url != "" {
				return args.service.release(cmd, args, paths[0])
			}
			client, q, err := args.connection.queue(cmd, paths[0])
			if err != nil {
				return err
			}
			defer client.Close()
			released, err := args.release(cmd.Context(), client, q)
			if err != nil {
				return err
			}
			logError(cmd.ErrOrStderr(), stillWorking)
			return printText(cmd, fmt.Sprintf("released %s: node %s, token %v, owner %q, reason %q\n",
				q.Path(), released.Name, released.Token, printable(released.Owner), args.reason))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&args.token, "token", "", "`token` of the holder")
	flags.StringVar(&args.reason, "reason", "", "why, which is printed for your records")
	flags.StringVar(&args.mode, "mode", "", "how to release: now frees the lock immediately, the default with --servers;\nsafe, the default with --url, notifies the holder and waits until it must\nhave stopped")
	flags.BoolVar(&args.force, "force", false, "confirm that the holder may still be working")
	args.connection.addFlags(cmd)
	args.service.addFlags(cmd)
	cmd.ValidArgsFunction = args.connection.complete(&args.service)
	return cmd
}

// The modes. modeNow frees the lock without waiting for the holder.
const (
	modeNow  = "now"
	modeSafe = "safe"
)

// releaseArguments are the arguments of the release command.
type releaseArguments struct {
	connection    connection
	service       serviceAccess
	token, reason string
	mode          string
	force         bool

	parsed fencing.Token // token
}

func (a *releaseArguments) check(cmd *cobra.Command, path string) error {
	if err := a.service.check(cmd, &a.connection, path); err != nil {
		return err
	}
	switch {
	case a.token == "":
		return usageErrorf("--token is missing: show prints it")
	case a.reason == "":
		return usageErrorf("--reason is missing")
	case a.mode != "" && a.mode != modeNow && a.mode != modeSafe:
		return usageErrorf("--mode %q is neither %q nor %q", a.mode, modeSafe, modeNow)
	case a.mode == modeSafe && a.service.url == "":
		return usageErrorf("--mode %s needs --url: only the lock service notifies holders", modeSafe)
	case !a.force:
		return usageErrorf("the holder may still be working: add --force if the lock is to be taken from it")
	}
	var err error
	if a.parsed, err = fencing.ParseToken(a.token); err != nil {
		return usageErrorf("--token: %w", err)
	}
	if a.service.url != "" {
		return nil
	}
	return a.connection.check()
}

// release deletes the node of the first contender, and returns that contender.
func (a *releaseArguments) release(ctx context.Context, client *recipes.Client, q *queue.Queue) (recipes.Contender, error) {
	fail := func(err error) (recipes.Contender, error) {
		return recipes.Contender{}, &recipes.Error{Op: "release", Path: q.Path(), Err: err}
	}
	ctx, cancel := a.connection.bound(ctx)
	defer cancel()
	front, err := q.First(ctx)
	switch {
	case errors.Is(err, queue.ErrEmpty):
		return fail(errors.New("no contender: there is nothing to release"))
	case err != nil:
		return recipes.Contender{}, err
	case front.Token != a.parsed:
		return fail(fmt.Errorf("token %v is not in front: %q is, with token %v", a.parsed, printable(front.Owner), front.Token))
	}
	// The name of a contender's node is never given twice, so this deletes no other node.
	err = client.Conn().Delete(q.Path()+"/"+front.Name, -1)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return fail(fmt.Errorf("token %v is not in front any more: its node is gone", a.parsed))
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrSessionExpired):
		return fail(fmt.Errorf("the outcome is unknown, show PATH reports it: %w", err))
	case err != nil:
		return fail(err)
	}
	return front, nil
}

// stillWorking is printed after a lock was freed without waiting for its holder.
const stillWorking = "release: the old holder may still work for a while: only a resource that checks the token is safe from it"
