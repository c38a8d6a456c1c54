// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/spans"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service"
)

func newServe() *cobra.Command {
	config, servers, zookeeper := service.Config{}, "", certificates{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve locks and elections over HTTP",
		Long: `Serve locks and elections over HTTP, for programs that cannot hold a ZooKeeper session. Run
several replicas with the same ensemble, principals and token keys: each serves any request.

The first line that it prints is export LOCKKEEPER_URL=…, which makes the other commands of a
shell use the service, unless the audit goes to standard output. The log is JSON, on standard error. When it is interrupted, it
exits with status 0, or 1 if requests did not finish or the audit was not written. SIGHUP makes it
open the file of the audit again.

OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 makes it send a span of each request, with the
trace of its caller, to an OpenTelemetry collector (http/protobuf). The other variables of OpenTelemetry apply, too.`,
		Example: `  lockkeeper serve --dev
  lockkeeper serve --servers zk1:2181,zk2:2181,zk3:2181 --listen :8443 --principals principals.json \
      --token-keys keys --tls-cert cert.pem --tls-key key.pem --audit audit.jsonl`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if servers == "" && !config.Dev {
				servers = os.Getenv(serversVariable)
			}
			if servers == "" && !config.Dev {
				return usageErrorf("--servers is missing: name the servers of ZooKeeper, set %s, or try --dev", serversVariable)
			}
			if servers != "" {
				config.Servers = []string{servers}
			}
			if err := zookeeper.check(); err != nil {
				return err
			}
			var err error
			if config.ZooKeeperTLS, err = zookeeper.config(); err != nil {
				return err
			}
			if err := config.Check(); err != nil {
				return usageErrorf("%w", err)
			}
			return runServe(cmd, config, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&config.Dev, "dev", false, "let every caller do everything, and keep all locks in memory unless --servers\nnames servers of this machine: for development, on a loopback address")
	flags.StringVar(&servers, "servers", "", "servers of the ensemble, `host:port,…[/chroot]` (default: the environment\nvariable "+serversVariable+")")
	flags.StringVar(&config.Root, "root", "/lockkeeper", "`path` below which each namespace has a node")
	flags.DurationVar(&config.SessionTimeout, "session-timeout", recipes.DefaultSessionTimeout, "timeout of the replica's own session; no lease depends on it")
	flags.StringVar(&config.ZooKeeperAuth, "zookeeper-auth", "", "`file` with a credential for ZooKeeper, user:password: only with it can the\nnodes of leases be written")
	zookeeper.addFlags(flags, "zookeeper-", "the servers of ZooKeeper")
	flags.StringVar(&config.Listen, "listen", "127.0.0.1:8080", "`address` to serve on")
	flags.StringVar(&config.TLSCert, "tls-cert", "", "`file` of the server's certificate, read again when it changes")
	flags.StringVar(&config.TLSKey, "tls-key", "", "`file` of the certificate's key")
	flags.StringVar(&config.ClientCA, "client-ca", "", "`file` of the authorities that sign client certificates, read again when it\nchanges")
	flags.StringVar(&config.Principals, "principals", "", "`file` of the callers, read again when it changes")
	flags.StringVar(&config.TokenKeys, "token-keys", "", "`file` of the keys that sign lock tokens, read again when it changes")
	flags.StringVar(&config.Audit, "audit", "", "`file` that audit events are appended to")
	flags.BoolVar(&config.AuditRenewals, "audit-renewals", false, "audit renewals that were carried out, too")
	flags.DurationVar(&config.MaxTTL, "max-ttl", time.Hour, "longest lease, at most 1h")
	flags.IntVar(&config.Keys, "keys", 100_000, "live keys of each namespace, at most 100000")
	flags.Float64Var(&config.Rate, "rate", 100, "requests a second of each principal")
	flags.IntVar(&config.Burst, "burst", 200, "requests at the same time of each principal")
	flags.IntVar(&config.Waiters, "waiters", 1000, "waits and event streams at the same time of each principal")
	return cmd
}

// runServe serves until the command's context ends.
func runServe(cmd *cobra.Command, config service.Config, stdout, stderr io.Writer) error {
	outliveReaders()
	config.Logger = slog.New(slog.NewJSONHandler(stderr, nil))
	if info := buildInfo(); info != nil {
		config.Version = cmp.Or(info.Main.Version, "unknown")
	}
	started := false
	config.Started = func(url string) {
		started = true
		if !isFile(stdout, config.Audit) { // an audit has only events
			// A reader that has gone is no reason to stop: the log has the address too.
			_, _ = fmt.Fprintf(stdout, "export %s=%s\n", urlVariable, url)
		}
	}
	reopen := make(chan os.Signal, 1)
	signal.Ignore(syscall.SIGHUP) // it no longer ends the command
	signal.Notify(reopen, syscall.SIGHUP)
	defer signal.Stop(reopen)
	config.Reopen = reopen
	middleware, flush, err := spans.FromEnvironment(cmd.Context(), config.Version, config.Logger)
	if err != nil {
		return usageErrorf("%w", err)
	}
	defer flush()
	config.Middleware = middleware
	err = service.Run(cmd.Context(), config)
	if !started && cmd.Context().Err() != nil {
		return nil // its error is that the start was interrupted; after the start, it is of the stop
	}
	return err
}

// isFile reports whether w writes to the file of that name.
func isFile(w io.Writer, name string) bool {
	file, ok := w.(*os.File)
	if !ok || name == "" {
		return false
	}
	open, err := file.Stat()
	named, missing := os.Stat(name)
	return err == nil && missing == nil && os.SameFile(open, named)
}
