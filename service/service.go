// SPDX-License-Identifier: Apache-2.0

// Package service runs the lock service: leases over HTTP for programs that cannot hold a ZooKeeper session. Its replicas
// keep no state but in ZooKeeper: any of them serves any request, and none of them must survive. docs/service.md has its
// promises and the API; package lease carries out the protocol.
//
// What a failure does: the death of a replica costs no lease, and no position in a queue if the waiter asks another
// replica within 15 s. Without a quorum of ZooKeeper nothing is granted, renewed or expired, and the answer is 503: the
// outcome is unknown, and a repeat with the same requestId finds out.
package service

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/internal/actions"
	"github.com/lockkeeper/lockkeeper/service/internal/api"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
	"github.com/lockkeeper/lockkeeper/service/internal/holds"
	"github.com/lockkeeper/lockkeeper/service/internal/locktoken"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
	"github.com/lockkeeper/lockkeeper/service/internal/quota"
	"github.com/lockkeeper/lockkeeper/service/internal/reload"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// reloadInterval is how soon a changed file is noticed.
const reloadInterval = 2 * time.Second

// Run serves until ctx is done, and then stops in order: it accepts no more connections, answers those that wait (with a
// 202: their callers ask another replica), ends event streams, and lets other requests finish, for 15 s at most. It waits
// until the ensemble can be reached before it serves. It returns nil after an orderly stop.
func Run(ctx context.Context, config Config) (err error) {
	if err := config.Check(); err != nil {
		return fmt.Errorf("configure service: %w", err)
	}
	c := config.withDefaults()
	f, err := openFiles(c)
	if err != nil {
		return fmt.Errorf("configure service: %w", err)
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if c.Dev {
		c.Logger.Warn("development mode: every caller may do everything")
	}
	if c.Dev && len(c.Servers) == 0 {
		ensemble, err := zktest.Run(ctx, nil)
		if err != nil {
			return fmt.Errorf("start ZooKeeper in memory: %w", err)
		}
		defer func() { err = errors.Join(err, ensemble.Close()) }()
		c.Servers = ensemble.Addrs()
		c.Logger.Warn("all state is in memory")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = listener.Close() }() // the server has closed it, unless it never served

	registry := prometheus.NewRegistry()
	table := newHolds(c, registry)
	client, err := connect(ctx, c, f, table, registry)
	if err != nil {
		return err
	}
	defer func() {
		if err := client.Close(); err != nil {
			c.Logger.Warn("the session was not closed", "error", err)
		}
	}()
	return serve(ctx, c, f, client, table, listener, registry)
}

// serve serves over a client until ctx is done.
func serve(
	ctx context.Context, c *Config, f *files, client *recipes.Client, table *holds.Table, listener net.Listener, registry *prometheus.Registry,
) error {
	replica, err := lease.New(client, &lease.Options{Logger: c.Logger, ACL: f.acl, MaxTTL: c.MaxTTL, Sweep: c.Root})
	if err != nil {
		return err
	}
	defer replica.Close()
	probe, err := newProbe(client, c.Root+"/=probe")
	if err != nil {
		return err
	}
	recent := actions.New(client, c.Root+"/=actions", f.acl, c.Logger)
	past := history.New(client, c.Root+"/=history", f.acl, c.Logger)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { probe.run(background) })
	running.Go(func() { past.Run(background) })
	running.Go(func() { f.watch(background, c.Logger) })
	running.Go(func() { f.reopen(background, c) })
	root, err := node.New(client, c.Root)
	if err != nil {
		return err
	}
	draining := make(chan struct{})
	var handler http.Handler = api.New(api.Options{
		Locks: locks{replica}, Actions: recent, History: past, Quota: quota.New(client, c.Root, c.Keys), Root: c.Root, Namespaces: root.Children, Principals: f.principals, Keys: f.keys, Audit: f.audit, AuditRenewals: c.AuditRenewals, Holds: table, Logger: c.Logger, Registry: registry,
		Ready: probe.ready, Draining: draining, Version: c.Version,
	})
	if c.Middleware != nil {
		handler = c.Middleware(handler)
	}
	server := newServer(handler, f, c.Logger)
	failed := make(chan error, 1)
	running.Go(func() { failed <- listen(server, listener, f.certificate != nil) })
	scheme := "http"
	if f.certificate != nil {
		scheme = "https"
	} else if !c.Dev {
		c.Logger.Warn("no TLS: credentials travel in plain text, unless a proxy on this host ends TLS", "listen", listener.Addr().String())
	}
	c.Logger.Info("serving", "url", scheme+"://"+listener.Addr().String())
	if c.Started != nil {
		c.Started(scheme + "://" + listener.Addr().String())
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	c.Logger.Info("stopping")
	close(draining)
	replica.Drain()
	return shutDown(server)
}

// locks are the locks of a replica.
type locks struct{ *lease.Replica }

// Watch returns the replica's.
func (l locks) Watch(path string) api.Watch { return l.Replica.Watch(path) }

// files are what the configuration's files contain.
type files struct {
	principals  *reload.File[principal.Directory]
	keys        *reload.File[locktoken.Keys]
	certificate *reload.File[certificate]   // nil without TLS
	clientCA    *reload.File[x509.CertPool] // nil without client certificates
	auth        []recipes.Auth
	acl         []zk.ACL
	audit       *audit.Log // nil if none
}

// openFiles reads the files of a configuration that was checked.
func openFiles(c *Config) (*files, error) {
	f := &files{}
	var err error
	if c.Dev {
		f.principals = reload.Fixed(principal.Development(c.limits()))
		keys, err := locktoken.ParseKeys([]byte(randomKey()))
		if err != nil {
			return nil, err
		}
		f.keys = reload.Fixed(keys)
	} else {
		f.principals, err = reload.Open(c.Principals, func(content []byte) (*principal.Directory, error) {
			return principal.Parse(content, c.limits())
		})
		if err != nil {
			return nil, err
		}
		if f.keys, err = reload.Open(c.TokenKeys, locktoken.ParseKeys); err != nil {
			return nil, err
		}
	}
	if err := f.openTLS(c); err != nil {
		return nil, err
	}
	if c.ZooKeeperAuth != "" {
		credential, err := os.ReadFile(c.ZooKeeperAuth)
		if err != nil {
			return nil, err
		}
		user, password, ok := strings.Cut(strings.TrimSpace(string(credential)), ":")
		if !ok || user == "" {
			return nil, fmt.Errorf("read %s: the content is not user:password", c.ZooKeeperAuth)
		}
		f.auth = []recipes.Auth{recipes.Digest(user, password)}
		// Contenders of other programs must read a lease; only the service may write it.
		f.acl = append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
	}
	if c.Audit != "" {
		file, err := audit.Open(c.Audit)
		if err != nil {
			return nil, err
		}
		f.audit = audit.New(file)
	}
	return f, nil
}

// watch reads the files again when they change, until ctx is done.
func (f *files) watch(ctx context.Context, logger *slog.Logger) {
	var running sync.WaitGroup
	running.Go(func() { f.principals.Watch(ctx, reloadInterval, logger) })
	running.Go(func() { f.keys.Watch(ctx, reloadInterval, logger) })
	if f.certificate != nil {
		running.Go(func() { f.certificate.Watch(ctx, reloadInterval, logger) })
	}
	if f.clientCA != nil {
		running.Go(func() { f.clientCA.Watch(ctx, reloadInterval, logger) })
	}
	running.Wait()
}

// reopen opens the audit file again for each signal, until ctx is done. If that fails, the replica writes to the old one.
func (f *files) reopen(ctx context.Context, c *Config) {
	for {
		select {
		case <-c.Reopen:
		case <-ctx.Done():
			return
		}
		if f.audit == nil {
			continue
		}
		file, err := audit.Open(c.Audit)
		if err == nil {
			err = f.audit.Replace(ctx, file)
		}
		if err != nil {
			c.Logger.Error("audit file not opened again", "file", c.Audit, "error", err)
			continue
		}
		c.Logger.Info("audit file opened again", "file", c.Audit)
	}
}

// close writes what the audit file lacks, and closes it.
func (f *files) close() error { return f.audit.Close() }

// randomKey returns a key for one run.
func randomKey() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return hex.EncodeToString(secret)
}

// newServer returns a server that disconnects slow clients.
func newServer(handler http.Handler, f *files, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		TLSConfig:         f.tlsConfig(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // for the body; the handler lifts it once that was read
		WriteTimeout:      time.Minute,      // a poll takes 20 s, and the answers of ZooKeeper at most 20 s more
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

func listen(server *http.Server, listener net.Listener, encrypted bool) error {
	if encrypted {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

// shutDown lets requests finish, and ends those that take too long.
func shutDown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(fmt.Errorf("stop: requests did not finish in time: %w", err), server.Close())
	}
	return err
}
