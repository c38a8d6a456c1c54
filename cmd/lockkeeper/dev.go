// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/lab"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func newDev() *cobra.Command {
	args := &devArguments{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Serve zktest, an in-memory ZooKeeper, for development",
		Long: `Serve zktest, an in-memory ZooKeeper, for development. Not for production: it has no
persistence, and accepts every client.

The first line that it prints is export LOCKKEEPER_SERVERS=host:port,… Paste it into another
shell, whose commands then use these servers. dev serves until it is interrupted, even after the
end of standard input, and exits with status 0 then.

With --lab it also starts a lock service, three processes that contend for a lock, and a page that
shows what each of them believes, has and writes while you disturb them: the second line has its
address.`,
		Example: "  lockkeeper dev --servers 3\n" +
			"  lockkeeper dev --lab",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if args.lab && !cmd.Flags().Changed("servers") {
				args.servers = labServers
			}
			if err := args.check(); err != nil {
				return usageErrorf("%w", err)
			}
			return runDev(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&args.listen, "listen", "127.0.0.1:2181", "address of the first server; the others use the ports that follow,\nor free ports if the port is 0")
	flags.IntVar(&args.servers, "servers", 1, "number of servers in the ensemble, up to 7")
	flags.DurationVar(&args.tick, "tick", 500*time.Millisecond, "the servers' tick; sessions time out after 2 to 20 ticks")
	flags.BoolVar(&args.ttl, "ttl-nodes", false, "allow nodes with a time to live, as extendedTypesEnabled does")
	flags.DurationVar(&args.reap, "reap", time.Minute, "interval at which empty containers and expired TTL nodes are deleted")
	flags.BoolVar(&args.faults, "faults", false, "read commands from standard input even if it is not a terminal, one per\nline: \"help\" lists them")
	flags.BoolVar(&args.lab, "lab", false, "also serve a laboratory: contenders, faults and registers on a page, with 3\nservers unless --servers says otherwise")
	flags.StringVar(&args.labListen, "lab-listen", "127.0.0.1:8090", "loopback `address` of the laboratory's page")
	flags.BoolVar(&args.exposed, "expose", false, "allow --listen to take an address that other machines can reach")
	return cmd
}

// devArguments are the arguments of the dev command.
type devArguments struct {
	listen  string // host:port of the first server
	servers int
	tick    time.Duration
	ttl     bool          // allow nodes with a time to live
	reap    time.Duration // the interval of deletions of empty containers and expired TTL nodes
	faults  bool          // read commands from standard input even if it is not a terminal
	exposed bool          // allow an address that other machines can reach

	lab       bool   // serve a laboratory
	labListen string // host:port of its page
}

func (a *devArguments) check() error {
	// Zero would select zktest's default. zktest checks everything else itself.
	switch {
	case a.listen == "":
		return errors.New("--listen is empty")
	case a.servers < 1:
		return fmt.Errorf("--servers %d is below the minimum of 1", a.servers)
	case a.tick <= 0:
		return fmt.Errorf("--tick %v is not positive", a.tick)
	case a.reap <= 0:
		return fmt.Errorf("--reap %v is not positive", a.reap)
	}
	host, _, err := net.SplitHostPort(a.listen)
	if err != nil {
		return fmt.Errorf("--listen %q is not host:port", a.listen)
	}
	if !a.exposed && !isLoopback(host) {
		return fmt.Errorf("--listen %s may be reachable from other machines, and dev accepts every client: add --expose to allow it", a.listen)
	}
	if a.lab {
		return a.checkLab()
	}
	return nil
}

func (a *devArguments) checkLab() error {
	host, _, err := net.SplitHostPort(a.labListen)
	switch {
	case err != nil:
		return fmt.Errorf("--lab-listen %q is not host:port", a.labListen)
	case !isLoopback(host):
		return fmt.Errorf("--lab-listen %s may be reachable from other machines, and the page lets every caller act: choose a loopback address", a.labListen)
	case labTicks*a.tick < time.Second:
		return fmt.Errorf("--tick %v is too short for --lab: sessions of %d ticks must last a second", a.tick, labTicks)
	}
	return nil
}

// isLoopback reports whether host is a loopback address or "localhost". It does not
// resolve names.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// runDev executes the dev command.
func runDev(ctx context.Context, args *devArguments, stdin io.Reader, stdout, stderr io.Writer) error {
	outliveReaders()
	opts := &zktest.Options{
		Addr:    args.listen,
		Servers: args.servers,
		Tick:    args.tick,

		TTLNodes:          args.ttl,
		ContainerInterval: args.reap,

		Logger: slog.New(slog.NewTextHandler(stderr, nil)),
	}
	var laboratory *lab.Lab
	if args.lab {
		laboratory = lab.New()
		opts.OnCommit = laboratory.Committed
	}
	ensemble, err := zktest.Run(ctx, opts)
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		return err
	case err != nil:
		return usageErrorf("%w", err)
	}
	err = announce(ensemble, args, stdin, stdout, stderr)
	switch {
	case err != nil:
	case args.lab:
		config := lab.Config{Ensemble: ensemble, Timeout: labTicks * args.tick, Listen: args.labListen}
		rest := func(ctx context.Context) { serve(ctx, ensemble, args, stdin, stdout, stderr) }
		err = serveLab(ctx, laboratory, config, rest, stdout, stderr)
	default:
		serve(ctx, ensemble, args, stdin, stdout, stderr)
	}
	return errors.Join(err, ensemble.Close())
}

// announce prints the servers' addresses. Its error is from a write to stdout.
func announce(ensemble *zktest.Ensemble, args *devArguments, stdin io.Reader, stdout, stderr io.Writer) error {
	// An error of standard error is ignored: the address matters more.
	_, _ = io.WriteString(stderr, warning(ensemble.Addrs(), args, args.interactive(stdin)))
	_, err := fmt.Fprintf(stdout, "export %s=%s\n", serversVariable, strings.Join(ensemble.Addrs(), ","))
	return err
}

// interactive reports whether commands are read from stdin.
func (a *devArguments) interactive(stdin io.Reader) bool { return a.faults || isTerminal(stdin) }

// serve executes commands from standard input until ctx ends.
func serve(ctx context.Context, ensemble *zktest.Ensemble, args *devArguments, stdin io.Reader, stdout, stderr io.Writer) {
	if !args.interactive(stdin) {
		<-ctx.Done()
		return
	}
	(&console{ensemble: ensemble, out: stdout, err: stderr}).run(ctx, stdin)
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
