// SPDX-License-Identifier: Apache-2.0

// Lockkeeper demonstrates the library, and serves an in-memory ZooKeeper for development.
//
//	lockkeeper demo [--servers host:port,…/chroot] [--timeout 4s]
//	lockkeeper dev [--listen 127.0.0.1:2181] [--servers 1] [--tick 500ms] [--ttl-nodes]
//	               [--reap 1m] [--faults] [--expose]
//	lockkeeper version
//	lockkeeper help
//
// The demo exits with status 0 and a last line that begins with "ok:" if it has measured
// that everything it claims holds, and with status 1 and "failed:" otherwise. Dev exits
// with status 0 when it is interrupted, and with status 1 if it cannot listen. A usage
// error exits with status 2.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

const usage = `usage: lockkeeper demo [--servers host:port,…/chroot] [--timeout 4s]
       lockkeeper dev [--listen 127.0.0.1:2181] [--servers 1] [--tick 500ms] [--ttl-nodes]
                      [--reap 1m] [--faults] [--expose]
       lockkeeper version
       lockkeeper help

demo     run three candidates: the leader is partitioned from ZooKeeper and notified,
         another takes over, and a stale write of the first is rejected

  --servers   the servers of a real ensemble, as a ZooKeeper connect string:
              zk1:2181,zk2:2181/app works below /app (default: the environment
              variable ZK_SERVERS, or else three zktest servers in this process)
  --timeout   the session timeout to request, at least 1s; on a real ensemble choose
              at least four ticks of its servers (default 4s)

The demo leaves nothing on the servers: it uses its own path below /lockkeeper-demo, or
/chroot/lockkeeper-demo, in container nodes, which the servers remove.

dev      serve zktest, an in-memory ZooKeeper, for development. Not for production:
         it has no persistence, and accepts every client. The first line that it prints is
         ZK_SERVERS=host:port,…; it serves until it is interrupted, even after the end
         of standard input

  --listen    the address of the first server; the others use the ports that follow,
              or free ports if the port is 0 (default 127.0.0.1:2181)
  --servers   the number of servers in the ensemble, up to 7 (default 1)
  --tick      the servers' tick; sessions time out after 2 to 20 ticks (default 500ms)
  --ttl-nodes
              allow nodes with a time to live, as extendedTypesEnabled does
  --reap      the interval at which empty containers and expired TTL nodes are deleted
              (default 1m)
  --faults    read commands from standard input even if it is not a terminal, one per
              line: "help" lists them
  --expose    allow --listen to take an address that other machines can reach
`

// The exit statuses of the command.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal starts an orderly end. A second one kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes the command and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return usageError(stderr, "no command")
	}
	command, args := args[0], args[1:]
	switch command {
	case "demo":
		return runDemo(ctx, args, stdout, stderr)
	case "dev":
		return runDev(ctx, args, stdin, stdout, stderr)
	case "version", "help", "-h", "-help", "--help":
		if len(args) > 0 {
			return usageError(stderr, "%s takes no arguments, not %q", command, args)
		}
	default:
		return usageError(stderr, "unknown command %q", command)
	}
	if command == "version" {
		info, _ := debug.ReadBuildInfo()
		return printText(version(info)+"\n", stdout, stderr)
	}
	return printText(usage, stdout, stderr)
}

// printText prints text to stdout and returns the exit status.
func printText(text string, stdout, stderr io.Writer) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		logError(stderr, "%v", err)
		return statusFailed
	}
	return statusOK
}

// usageError reports a mistake in the arguments, and prints the usage.
func usageError(stderr io.Writer, format string, args ...any) int {
	logError(stderr, format, args...)
	// If standard error cannot be written, the status is all that is left.
	_, _ = io.WriteString(stderr, usage)
	return statusUsage
}

// logError prints an error to stderr, after the name of the program.
func logError(stderr io.Writer, format string, args ...any) {
	// If standard error cannot be written, the status is all that is left.
	_, _ = fmt.Fprintf(stderr, "lockkeeper: "+format+"\n", args...)
}
