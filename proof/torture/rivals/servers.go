// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// server adapts a server of package stores to torture.Server.
type server struct{ *stores.Server }

func (s server) Addr() string                          { return s.Server.Addr }
func (s server) Pause(context.Context) error           { return s.Server.Pause() }
func (s server) Unpause(context.Context) error         { return s.Server.Unpause() }
func (s server) Log(context.Context) string            { return s.Server.Log() }
func (s server) Partition(context.Context) error       { return docker.ErrUnsupported }
func (s server) Isolate(context.Context) error         { return docker.ErrUnsupported }
func (s server) Heal(context.Context) error            { return docker.ErrUnsupported }
func (s server) WaitServing(ctx context.Context) error { return s.Start(ctx) } // which is done when it serves

// alone is the torture.Servers of servers that do not know of each other: of one, or of a quorum that the client forms.
type alone struct {
	servers []server
	about   string
}

func (a alone) About() string { return a.about }

func (a alone) All() []torture.Server {
	var all []torture.Server
	for _, s := range a.servers {
		all = append(all, s)
	}
	return all
}

// Leader returns the first server: none leads, and a fault that hits the leader must hit one.
func (a alone) Leader(context.Context) (torture.Server, error) { return a.servers[0], nil }

func (a alone) WaitServing(ctx context.Context) error {
	for _, s := range a.servers {
		if err := s.WaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a alone) Close() error {
	var errs []error
	for _, s := range a.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// startRedis returns a function that starts n servers of Redis.
func startRedis(n int) func(context.Context) (torture.Servers, error) {
	return func(ctx context.Context) (torture.Servers, error) {
		var a alone
		for range n {
			s, err := stores.RunRedis(ctx, nil)
			if err != nil {
				return nil, errors.Join(err, a.Close())
			}
			a.servers = append(a.servers, server{s})
		}
		client := redis.NewClient(&redis.Options{Addr: a.servers[0].Addr()})
		info, err := client.Info(ctx, "server").Result()
		if err := errors.Join(err, client.Close()); err != nil {
			return nil, errors.Join(err, a.Close())
		}
		a.about = "Redis"
		for line := range strings.Lines(info) {
			if version, found := strings.CutPrefix(line, "redis_version:"); found {
				a.about += " " + strings.TrimSpace(version)
			}
		}
		return a, nil
	}
}

func startPostgres(ctx context.Context) (torture.Servers, error) {
	s, err := stores.RunPostgres(ctx, nil)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (torture.Servers, error) {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), s.Close())
	}
	db, err := sql.Open("pgx", s.DSN("public"))
	if err != nil {
		return fail(err)
	}
	var version string
	_, err = db.ExecContext(ctx, rowLockTable)
	err = errors.Join(err, db.QueryRowContext(ctx, "SHOW server_version").Scan(&version), db.Close())
	if err != nil {
		return fail(err)
	}
	return alone{[]server{{s.Server}}, "PostgreSQL " + version}, nil
}

// member adapts a member of an etcd cluster to torture.Server.
type member struct{ *stores.EtcdMember }

func (m member) Addr() string                  { return m.EtcdMember.Addr }
func (m member) Pause(context.Context) error   { return m.EtcdMember.Pause() }
func (m member) Unpause(context.Context) error { return m.EtcdMember.Unpause() }
func (m member) Log(context.Context) string    { return m.EtcdMember.Log() }

// cluster adapts an etcd cluster to torture.Servers.
type cluster struct {
	*stores.Etcd
	about string
}

func (c cluster) About() string { return c.about }

func (c cluster) All() []torture.Server {
	var all []torture.Server
	for _, m := range c.Members() {
		all = append(all, member{m})
	}
	return all
}

func (c cluster) Leader(ctx context.Context) (torture.Server, error) {
	m, err := c.Etcd.Leader(ctx)
	if err != nil { // return a nil Server, not one with a nil pointer
		return nil, err
	}
	return member{m}, nil
}

// etcdMembers is the number of members.
const etcdMembers = 3

func startEtcd(ctx context.Context) (torture.Servers, error) {
	e, err := stores.RunEtcd(ctx, etcdMembers, nil)
	if err != nil {
		return nil, err
	}
	version, err := e.Members()[0].Version(ctx)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return cluster{e, "etcd " + version}, nil
}
