// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// runDev executes the dev command and returns its exit status.
func runDev(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	parsed, err := parseDev(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printText(usage, stdout, stderr)
	case err != nil:
		return usageError(stderr, "dev: %v", err)
	}
	ensemble, err := zktest.Run(ctx, &zktest.Options{
		Addr:    parsed.listen,
		Servers: parsed.servers,
		Tick:    parsed.tick,

		TTLNodes:          parsed.ttl,
		ContainerInterval: parsed.reap,

		Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	})
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		logError(stderr, "dev: %v", err)
		return statusFailed
	case err != nil:
		return usageError(stderr, "dev: %v", err)
	}
	if err := errors.Join(serve(ctx, ensemble, parsed, stdin, stdout, stderr), ensemble.Close()); err != nil {
		logError(stderr, "dev: %v", err)
		return statusFailed
	}
	return statusOK
}

// serve prints the servers' addresses, and executes commands from standard input, until
// ctx ends. Its error is that of a write to stdout.
func serve(ctx context.Context, ensemble *zktest.Ensemble, args *devArguments, stdin io.Reader, stdout, stderr io.Writer) error {
	interactive := args.faults || isTerminal(stdin)
	// An error of standard error is ignored: the address matters more.
	_, _ = io.WriteString(stderr, warning(ensemble.Addrs(), args, interactive))
	if _, err := fmt.Fprintf(stdout, "ZK_SERVERS=%s\n", strings.Join(ensemble.Addrs(), ",")); err != nil {
		return err
	}
	if !interactive {
		<-ctx.Done()
		return nil
	}
	return (&console{ensemble: ensemble, out: stdout, err: stderr}).run(ctx, stdin)
}

// warning returns what every user of dev must know.
func warning(servers []string, args *devArguments, interactive bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lockkeeper: dev: NOT FOR PRODUCTION: this is zktest, a ZooKeeper in the memory of this process\n")
	fmt.Fprintf(&b, "  it has no persistence: all nodes are lost when it ends\n")
	fmt.Fprintf(&b, "  it accepts every client that can reach %s, without TLS\n", strings.Join(servers, ", "))
	fmt.Fprintf(&b, "  sessions time out after %v to %v\n", 2*args.tick, 20*args.tick)
	if interactive {
		b.WriteString("  commands are read from standard input, one per line: help lists them\n")
	}
	return b.String()
}

// isTerminal reports whether r is a character device, as a terminal is, and not the null
// device.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	empty, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, empty)
}
