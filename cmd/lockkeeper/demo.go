// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/internal/connectstring"
)

func newDemo() *cobra.Command {
	args := &demoArguments{}
	list := ""
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Partition a leader and show that it is notified and its stale write rejected",
		Long: `Run three candidates: the leader is partitioned from ZooKeeper and notified, another
takes over, and a stale write of the first is rejected.

The demo exits with status 0 and a last line that begins with "ok:" if it has measured
that everything it claims holds, and with status 1 and "failed:" otherwise. It leaves
nothing on the servers: it uses its own path below /lockkeeper-demo, or
/chroot/lockkeeper-demo, in container nodes, which the servers remove.`,
		Example: "  lockkeeper demo\n" +
			"  lockkeeper demo --servers zk1:2181,zk2:2181,zk3:2181 --timeout 10s",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			named := cmd.Flags().Changed("servers")
			if !named {
				list = os.Getenv(serversVariable)
				named = strings.TrimSpace(list) != ""
			}
			if named {
				args.servers = []string{list}
			}
			if err := args.check(); err != nil {
				return usageErrorf("%w", err)
			}
			return runDemo(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&list, "servers", "", "`list` of the servers of a real ensemble, host:port,…[/chroot] (default: the\n"+
		"environment variable "+serversVariable+", or else three zktest servers in this process)")
	cmd.Flags().DurationVar(&args.timeout, "timeout", 4*time.Second, "session timeout to request, at least 1s; on a real ensemble choose at least\n"+
		"four ticks of its servers")
	return cmd
}

// demoArguments are the arguments of the demo command.
type demoArguments struct {
	servers []string      // a connect string; empty for servers in this process
	timeout time.Duration // the session timeout to request
}

// check returns an error for a bad argument, so that it is reported as wrong usage and not
// as a failed demo.
func (a *demoArguments) check() error {
	if a.timeout < time.Second {
		return fmt.Errorf("--timeout %v is below the minimum of %v", a.timeout, time.Second)
	}
	if len(a.servers) == 0 {
		return nil
	}
	return connectstring.Check(a.servers)
}

// runDemo executes the demo command.
func runDemo(ctx context.Context, args *demoArguments, stdout io.Writer) error {
	bound := 20*time.Second + 10*args.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("the demo took longer than %v", bound))
	defer cancel()
	ok, err := demo(ctx, args, stdout)
	if err == nil && !ok {
		err = &statusError{status: statusFailed} // the last line of the output states why
	}
	return err
}

// demo runs the scenario on the servers of the arguments. Its error comes from a write to
// out, or of the servers in this process.
func demo(ctx context.Context, args *demoArguments, out io.Writer) (ok bool, err error) {
	target, err := targetFor(args)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	return play(ctx, target, out)
}

// play runs the scenario, and prints the verdict as the last line. Its error comes from a
// write to out.
func play(ctx context.Context, on *target, out io.Writer) (ok bool, err error) {
	path := "/lockkeeper-demo/" + strings.ToLower(rand.Text()[:10])
	if _, err := fmt.Fprintf(out, "three candidates for %s on %s\n\n", path, on.name); err != nil {
		return false, err
	}
	tl := newTimeline(out)
	s := &scenario{target: on, path: path, timeline: tl, led: make(chan campaignResult, 2)}
	failure := s.run(ctx)
	s.close()
	if err := tl.close(); err != nil {
		return false, err
	}
	line := fmt.Sprintf("failed: %v", failure)
	if failure == nil {
		s.measurements.rows = s.store.written()
		line, ok = verdict(s.measurements)
	}
	_, err = fmt.Fprintln(out, line)
	return ok, err
}
