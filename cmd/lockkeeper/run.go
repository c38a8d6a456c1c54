// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/guardian"
	"github.com/lockkeeper/lockkeeper/service/client"
)

func newRun() *cobra.Command {
	args := &runArguments{}
	cmd := &cobra.Command{
		Use:                   "run {--lock PATH… [--try] | --elect PATH} [--wait DURATION] -- COMMAND [ARGUMENT…]",
		DisableFlagsInUseLine: true,
		Short:                 "Run a command while holding a lock or leading an election",
		Long: `Take a lock, or become the leader of an election, run a command, and release the hold
when the command has ended.

Several --lock are taken together, all or none of them. With --shared, all are taken for
reading: other commands with --shared hold them at the same time. With --permits N/LIMIT,
PATH is a semaphore of LIMIT permits, of which the command holds N. With --slot N, PATH has N
slots, and the command holds one, whose number no other holder has. With --lock-delay, the
command starts only that long after a holder that crashed or lost the lock; all users of the
lock must set it.

The command runs in its own process group, with the standard streams of lockkeeper and
these variables in its environment:

  LOCKKEEPER_TOKEN  the fencing token, for resources that check it
  LOCKKEEPER_OWNER  the label that other clients see
  LOCKKEEPER_PATH   the path of the lock or election, with its namespace
  LOCKKEEPER_SLOT   with --slot, the number of the slot, from 0 to N-1

With several --lock, the first and the last have a line for each, in the order of the flags.
The token of a hold that others share, with --shared or --permits, is a shared one.

SIGINT, SIGTERM and SIGHUP are forwarded to the process group, which continues if it is
stopped. So are SIGTSTP and SIGCONT while the command runs: Ctrl-Z stops the command, and
lockkeeper keeps the hold. When the command has ended, what remains of its process group is
killed before the hold is released.

If the hold is lost, the process group gets SIGTERM immediately, and SIGKILL an eighth of
the session timeout later, before ZooKeeper can grant the lock to another client. The
exception is a loss that the client cannot see before it has happened: an operator
deleted the node, this machine was paused, or servers pinged each other late. A process that leaves the process group is
not killed, and neither is one of another user, as under sudo: it works on without the hold.
Only a resource that checks the token is safe in these cases.

With --guard, a second process of lockkeeper waits for the death of the first one. It then kills the
process group, waits until all of it has ended, and closes the session: the next holder need not
wait for the session timeout. It connects without TLS, and needs Linux 5.4.

With --hand-over-to, the candidate with that label leads next when the command has ended,
whatever its position: those ahead of it yield once. If there is no such candidate, the
next one in the queue leads.

With --url, the hold is a lease of a lock service, PATH is NAMESPACE/KEY, and the lease's
TTL takes the place of the session timeout: SIGKILL follows when the lease ends.

` + runStatuses,
		Example: "  lockkeeper run --lock /locks/backup --try -- pg_dump -f backup.sql ledger\n" +
			"  lockkeeper run --lock /locks/deploy --wait 5m -- ./deploy.sh\n" +
			"  lockkeeper run --lock /locks/ledger --lock /locks/stock -- ./transfer.sh\n" +
			"  lockkeeper run --lock /semaphores/uploads --permits 1/4 -- ./upload.sh\n" +
			"  lockkeeper run --lock /slots/generator --slot 1024 -- ./generator\n" +
			"  lockkeeper run --elect /election/worker -- ./worker\n" +
			"  lockkeeper run --elect /election/worker --hand-over-to worker-2 -- ./worker\n" +
			"  lockkeeper run --url https://locks.example.com --token-file token --lock billing/backup -- ./backup.sh",
		Args: func(_ *cobra.Command, command []string) error {
			if len(command) == 0 {
				return usageErrorf("the command to run is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, command []string) error {
			args.waits, args.delays, args.numbered = cmd.Flags().Changed("wait"), cmd.Flags().Changed("lock-delay"), cmd.Flags().Changed("slot")
			args.command = command
			if err := args.check(cmd); err != nil {
				return err
			}
			return args.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the flags of the command are its own
	flags.StringArrayVar(&args.locks, "lock", nil, "`path` of the lock to hold; several are taken together")
	flags.BoolVar(&args.shared, "shared", false, "take the locks for reading")
	flags.StringVar(&args.permits, "permits", "", "hold `N/LIMIT` permits of a semaphore in place of a lock; N alone follows the\nstored limit")
	flags.IntVar(&args.slots, "slot", 0, "hold one of `N` slots in place of a lock")
	flags.DurationVar(&args.lockDelay, "lock-delay", 0, "start that long after a holder that did not release the lock")
	flags.StringVar(&args.elect, "elect", "", "`path` of the election to lead")
	flags.DurationVar(&args.wait, "wait", 0, "give up after this time (default: wait without a bound)")
	flags.BoolVar(&args.try, "try", false, "do not wait if another client holds the lock or waits for it")
	flags.StringVar(&args.successor, "hand-over-to", "", "`label` of the candidate that is to lead after the command (default: the\nnext one in the queue)")
	flags.BoolVar(&args.guarded, "guard", false, "if lockkeeper is killed, kill the process group and free the lock immediately")
	flags.StringVar(&args.owner, "owner", "", "`label` that other clients see (default: host and process id)")
	args.connection.addFlags(cmd)
	args.service.addFlags(cmd)
	cmd.ValidArgsFunction = anyFile
	completeFlag(cmd, "lock", args.connection.complete(&args.service))
	completeFlag(cmd, "elect", args.connection.complete(&args.service))
	flags.DurationVar(&args.service.ttl, "ttl", client.DefaultTTL, "with --url, how long the lease lasts without a renewal")
	return cmd
}

// run executes the command under the hold.
func (a *runArguments) run(cmd *cobra.Command) error {
	child, err := a.child(cmd)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, endSignals()...)
	defer signal.Stop(signals)
	outliveReaders() // this process must end neither before its command nor with another status

	var watcher *guardian.Guard
	if a.guarded {
		if watcher, err = guardian.Start(cmd.Context()); err != nil {
			return internal(err)
		}
		defer func() { _ = watcher.Close() }() // it never fails
		a.connection.guard = watcher
	}
	g, err := a.connect(cmd)
	if err != nil {
		return interrupted(cmd.Context(), signals, err)
	}
	defer g.close()
	h, err := g.acquire(cmd.Context(), a)
	if err != nil {
		return interrupted(cmd.Context(), signals, err)
	}
	var tokens, paths []string
	for i, token := range h.tokens() {
		tokens = append(tokens, token.String())
		paths = append(paths, g.Path(a.paths()[i]))
	}
	child.Env = append(os.Environ(),
		"LOCKKEEPER_TOKEN="+strings.Join(tokens, "\n"),
		"LOCKKEEPER_OWNER="+g.Owner(),
		"LOCKKEEPER_PATH="+strings.Join(paths, "\n"))
	if slot, ok := h.(slotHold); ok {
		child.Env = append(child.Env, "LOCKKEEPER_SLOT="+strconv.Itoa(slot.number))
	}
	// Ctrl-Z at a terminal that is not the standard input would stop this process, and not the command, which would go on after the
	// session has expired. Until now, a stop does no harm.
	notifyStops(signals)
	s := &supervisor{hold: h, cmd: child, signals: signals, stderr: cmd.ErrOrStderr(), guard: watcher}
	return s.run()
}

// connect connects to the lock service or the ensemble.
func (a *runArguments) connect(cmd *cobra.Command) (grantor, error) {
	if a.service.url != "" {
		return a.service.grantor(cmd.Context(), a.owner, &a.connection, cmd.ErrOrStderr())
	}
	c, err := a.connection.connect(cmd.Context(), a.owner, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	return session{c, &a.connection, cmd.ErrOrStderr()}, nil
}

// child returns the command to run. It looks for the program first, so that a misspelt
// name does not take the lock.
func (a *runArguments) child(cmd *cobra.Command) (*exec.Cmd, error) {
	child := exec.Command(a.command[0], a.command[1:]...)
	err := child.Err
	if err == nil {
		_, err = exec.LookPath(a.command[0]) // Command does not look for a name with a slash
	}
	if err != nil {
		return nil, startError(err)
	}
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	return child, nil
}

// interrupted returns err, with the status of the signal that ended ctx if one did.
func interrupted(ctx context.Context, signals <-chan os.Signal, err error) error {
	if ctx.Err() == nil {
		return err
	}
	select {
	case s := <-signals:
		if n, ok := s.(syscall.Signal); ok {
			return &statusError{statusSignalled + int(n), err}
		}
	case <-time.After(time.Second): // ctx can end before the signal is delivered here
	}
	return err
}

// runStatuses is the part of the help that lists the exit statuses of run.
const runStatuses = `Exit statuses: the command's, 128+n if signal n ended it or the wait, or else
    1  the lock was not acquired, with --try or within --wait
   64  wrong usage
   69  no server of the ensemble, or no replica of the lock service, could be reached in time
   70  another error, such as a refusal by a server
   75  the hold was lost before the command had ended
  126  the command could not be started
  127  the command was not found`
