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

// runDev is the dev command, up to its status.
func runDev(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	parsed, err := parseDev(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return show(usage, stdout, stderr)
	case err != nil:
		return misused(stderr, "dev: %v", err)
	}
	ensemble, err := zktest.Listen(&zktest.Options{
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
		complain(stderr, "dev: %v", err)
		return statusFailed
	case err != nil:
		return misused(stderr, "dev: %v", err)
	}
	if err := errors.Join(serve(ctx, ensemble, parsed, stdin, stdout, stderr), ensemble.Close()); err != nil {
		complain(stderr, "dev: %v", err)
		return statusFailed
	}
	return statusOK
}

// serve says what there is, and does what it is told on standard input, until ctx
// ends. Its error is one of stdout's.
func serve(ctx context.Context, ensemble *zktest.Ensemble, args *devArguments, stdin io.Reader, stdout, stderr io.Writer) error {
	commanded := args.faults || isTerminal(stdin)
	// Where standard error is broken the address is what counts.
	_, _ = io.WriteString(stderr, warning(ensemble.Servers(), args, commanded))
	if _, err := fmt.Fprintf(stdout, "ZK_SERVERS=%s\n", strings.Join(ensemble.Servers(), ",")); err != nil {
		return err
	}
	if !commanded {
		<-ctx.Done()
		return nil
	}
	return (&console{ensemble: ensemble, out: stdout, err: stderr}).run(ctx, stdin)
}

// warning is what everybody who starts dev has to know.
func warning(servers []string, args *devArguments, commanded bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lockkeeper: dev: NOT FOR PRODUCTION: this is zktest, which plays ZooKeeper in the memory of this process\n")
	fmt.Fprintf(&b, "  it keeps nothing: all nodes are gone when it ends\n")
	fmt.Fprintf(&b, "  it lets everybody in who reaches %s, without TLS\n", strings.Join(servers, ", "))
	fmt.Fprintf(&b, "  sessions time out after %v to %v\n", 2*args.tick, 20*args.tick)
	if commanded {
		b.WriteString("  commands are taken from standard input, a line each: help lists them\n")
	}
	return b.String()
}

// isTerminal reports whether commands can be typed there: it is a device such as a
// terminal is, and not the one that is always empty.
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
