// SPDX-License-Identifier: Apache-2.0

// Lockkeeper runs commands under a lock or a leadership, lists and repairs locks on a
// ZooKeeper ensemble, demonstrates the library, and serves an in-memory ZooKeeper for
// development. "lockkeeper help" lists its commands and exit statuses.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/lab"
	"github.com/lockkeeper/lockkeeper/internal/guardian"
)

func main() {
	guardian.Main(nil)
	lab.Main()
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	// The first signal starts an orderly end. A second one kills the process, unless the
	// command handles signals itself.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// endSignals returns the signals that ask for an orderly end. SIGINT or SIGHUP stays
// ignored if the parent process has set it to be, as nohup does. Go does not show whether others
// are ignored: SIGTERM is handled in any case.
func endSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
}

// run executes the command and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	cmd, err := root.ExecuteContextC(ctx)
	return report(cmd, err, stderr)
}
