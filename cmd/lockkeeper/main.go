// SPDX-License-Identifier: Apache-2.0

// Lockkeeper shows what the library does, and serves a ZooKeeper to play with.
//
//	lockkeeper demo [--servers host:port,…/chroot] [--timeout 4s]
//	lockkeeper dev [--listen 127.0.0.1:2181] [--servers 1] [--tick 500ms] [--ttl-nodes]
//	               [--reap 1m] [--faults] [--expose]
//	lockkeeper version
//	lockkeeper help
//
// The demo ends with status 0 and a last line that begins with "ok:" if everything
// that it shows was measured to hold, and with status 1 and "failed:" otherwise.
// Dev ends with status 0 when it is interrupted, and with status 1 if it cannot
// listen. Wrong arguments end a command with status 2.
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

demo     three candidates, one leader: it is cut off from ZooKeeper and told, another
         takes over, and what the first still tries to write is refused

  --servers   the servers of a real ensemble, as in any ZooKeeper configuration:
              zk1:2181,zk2:2181/app works below /app (default: ZK_SERVERS of the
              environment; without either, three servers of zktest in this process)
  --timeout   session timeout to ask for, at least 1s; choose four ticks of a real
              ensemble's servers or more (default 4s)

Nothing is left on the servers: the demo works on a path of its own below
/lockkeeper-demo, or /chroot/lockkeeper-demo, in container nodes, which the servers
remove.

dev      serves zktest, a ZooKeeper in this process and in memory, for playing. Not
         for production: it keeps nothing, and lets everybody in. The first line that
         it prints is ZK_SERVERS=host:port,…; an interrupt ends it, the end of standard
         input does not

  --listen    where the first server listens; the others take the ports that follow,
              or free ones if the port is 0 (default 127.0.0.1:2181)
  --servers   how many servers the ensemble has, up to 7 (default 1)
  --tick      the servers' tick; sessions time out after 2 to 20 of them (default 500ms)
  --ttl-nodes
              allow nodes with a time to live, as extendedTypesEnabled does
  --reap      how often empty containers and outdated TTL nodes are deleted (default 1m)
  --faults    take commands from standard input also where that is no terminal, a line
              each: "help" lists them
  --expose    allow --listen an address that other machines reach
`

// What the command's status says.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal has everything closed, a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command, up to its status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return misused(stderr, "no command")
	}
	command, args := args[0], args[1:]
	switch command {
	case "demo":
		return runDemo(ctx, args, stdout, stderr)
	case "dev":
		return runDev(ctx, args, stdin, stdout, stderr)
	case "version", "help", "-h", "-help", "--help":
		if len(args) > 0 {
			return misused(stderr, "%s takes no arguments, not %q", command, args)
		}
	default:
		return misused(stderr, "unknown command %q", command)
	}
	if command == "version" {
		info, _ := debug.ReadBuildInfo()
		return show(version(info)+"\n", stdout, stderr)
	}
	return show(usage, stdout, stderr)
}

// show prints what was asked for.
func show(text string, stdout, stderr io.Writer) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		complain(stderr, "%v", err)
		return statusFailed
	}
	return statusOK
}

// misused says what is wrong with the arguments, and what would be right.
func misused(stderr io.Writer, format string, args ...any) int {
	complain(stderr, format, args...)
	// Where standard error is broken the status has to say it.
	_, _ = io.WriteString(stderr, usage)
	return statusUsage
}

func complain(stderr io.Writer, format string, args ...any) {
	// Where standard error is broken the status has to say it.
	_, _ = fmt.Fprintf(stderr, "lockkeeper: "+format+"\n", args...)
}
