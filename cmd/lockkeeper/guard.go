// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/guardian"
)

// guardArguments are the arguments of the guard command.
type guardArguments struct {
	socket       string
	command      []string
	certificates certificates
}

func newGuard() *cobra.Command {
	args := &guardArguments{}
	cmd := &cobra.Command{
		Use:                   "guard {--socket PATH | -- COMMAND [ARGUMENT…]}",
		DisableFlagsInUseLine: true,
		Short:                 "Close the ZooKeeper sessions of processes that have died",
		Long: `Close the ZooKeeper sessions of processes immediately after their death, so that their locks
need not wait for the session timeout. The processes use package guard of the library.

With --socket, serve processes in other containers that share the folder of the socket, until
interrupted. With COMMAND, run it, as the first process of a container: guard forwards signals, waits
for orphans, names its socket in LOCKKEEPER_GUARD, and ends with the status of the command.`,
		Example: "  lockkeeper guard --socket /run/lockkeeper/guard\n" +
			"  lockkeeper guard -- ./worker",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, command []string) error {
			args.command = command
			return args.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the flags of the command are its own
	flags.StringVar(&args.socket, "socket", "", "`path` of the Unix socket to serve")
	args.certificates.addFlags(flags, "", "the servers")
	cmd.ValidArgsFunction = anyFile
	return cmd
}

func (a *guardArguments) run(cmd *cobra.Command) error {
	if (a.socket == "") == (len(a.command) == 0) {
		return usageErrorf("either --socket or a command is needed")
	}
	if err := a.certificates.check(); err != nil {
		return err
	}
	encryption, err := a.certificates.config()
	if err != nil {
		return err
	}
	outliveReaders()
	dial := new(net.Dialer).DialContext
	if encryption != nil {
		dial = (&tls.Dialer{Config: encryption}).DialContext
	}
	report := func(err error) {
		logError(cmd.ErrOrStderr(), "guard: %v", err)
	}
	serve := func(ctx context.Context, l *net.UnixListener) error {
		if err := guardian.Serve(ctx, l, dial, report); !errors.Is(err, context.Canceled) {
			return internal(err)
		}
		return nil
	}
	if len(a.command) > 0 {
		return a.runCommand(cmd, serve)
	}
	l, err := listenAt(cmd.Context(), a.socket)
	if err != nil {
		return internal(err)
	}
	return serve(cmd.Context(), l)
}

// listenAt listens on a socket, in place of one that no process serves any more. Processes of every user may connect: each
// registers only itself.
func listenAt(ctx context.Context, path string) (*net.UnixListener, error) {
	address := &net.UnixAddr{Name: path, Net: "unix"}
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return nil, errors.Join(fmt.Errorf("listen at %s: another process serves it", path), conn.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// runCommand runs the command with a guardian, and returns its status once the sessions of processes that have died are closed.
func (a *guardArguments) runCommand(cmd *cobra.Command, serve func(context.Context, *net.UnixListener) error) error {
	if runtime.GOOS != "linux" {
		return internal(fmt.Errorf("a guardian needs the pidfds of Linux: %w", errors.ErrUnsupported))
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwardedSignals()...)
	defer signal.Stop(signals)
	child := exec.Command(a.command[0], a.command[1:]...)
	if child.Err != nil {
		return startError(child.Err)
	}
	// A name without a file: the file system may be read-only.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@lockkeeper-guard-" + rand.Text(), Net: "unix"})
	if err != nil {
		return internal(err)
	}
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), guardian.Variable+"="+l.Addr().String())
	if err := cmd.Context().Err(); err != nil { // by a signal that may have come before Notify, and is not forwarded
		err = fmt.Errorf("start %s: %w", a.command[0], context.Cause(cmd.Context()))
		return errors.Join(interrupted(cmd.Context(), signals, &statusError{statusFailed, err}), l.Close())
	}

	ctx, cancel := context.WithCancel(context.WithoutCancel(cmd.Context())) // the command ends when it is to
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l) }()
	status, err := runFirst(child, signals)
	cancel()
	if err := errors.Join(err, <-served); err != nil || status == 0 {
		return err
	}
	return &statusError{status: status}
}
