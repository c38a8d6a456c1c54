// SPDX-License-Identifier: Apache-2.0

// Lockkeeper shows what the library does, on a real ensemble.
//
//	lockkeeper demo [--servers host:port,…] [--timeout 4s]
//	lockkeeper version
//	lockkeeper help
//
// The demo ends with status 0 and a last line that begins with "ok:" if everything
// that it shows was measured to hold, and with status 1 and "failed:" otherwise.
// Wrong arguments end the command with status 2.
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

const usage = `usage: lockkeeper demo [--servers host:port,…] [--timeout 4s]
       lockkeeper version
       lockkeeper help

demo     three candidates, one leader: it is cut off from ZooKeeper and told, another
         takes over, and what the first still tries to write is refused

  --servers   the ensemble's servers (default: ZK_SERVERS of the environment)
  --timeout   session timeout to ask for, at least 1s; choose four ticks of the
              servers or more (default 4s)

Nothing is left on the servers: the demo works on a path of its own below
/lockkeeper-demo, in container nodes, which go by themselves.
`

// What the command's status says.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal has the sessions closed, a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command, up to its status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return misused(stderr, "no command")
	}
	command, args := args[0], args[1:]
	switch command {
	case "demo":
		return runDemo(ctx, args, stdout, stderr)
	case "version", "help", "-h", "-help", "--help":
		if len(args) > 0 {
			return misused(stderr, "%s takes no arguments, not %q", command, args)
		}
	default:
		return misused(stderr, "unknown command %q", command)
	}
	text := usage
	if command == "version" {
		info, _ := debug.ReadBuildInfo()
		text = version(info) + "\n"
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		complain(stderr, "%s: %v", command, err)
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
