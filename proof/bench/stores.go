// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

var (
	etcd        = library{name: "etcd", own: true, open: openEtcd}
	redsyncLock = library{name: "redsync", own: true, open: openRedsync}
)

// openEtcd opens etcd's concurrency.Mutex, on as many members as there are servers of ZooKeeper.
func openEtcd(r *round, s setup) (*opened, error) {
	servers, err := r.bench.start("etcd", len(r.addrs), startEtcd)
	if err != nil {
		return nil, err
	}
	o := &opened{path: r.path()}
	clients, sessions := make([]*clientv3.Client, s.sessions), make([]*concurrency.Session, s.sessions)
	o.close = func() {
		_ = each(s.sessions, func(i int) (err error) {
			if sessions[i] != nil {
				err = sessions[i].Close()
			}
			if clients[i] != nil {
				err = errors.Join(err, clients[i].Close())
			}
			return err
		})
	}
	err = each(s.sessions, func(i int) (err error) {
		clients[i], err = clientv3.New(clientv3.Config{Endpoints: servers[i%len(servers) : i%len(servers)+1], DialTimeout: s.timeout, Logger: zap.NewNop()})
		if err == nil {
			sessions[i], err = concurrency.NewSession(clients[i], concurrency.WithTTL(int(s.timeout.Seconds())))
		}
		return err
	})
	if err != nil {
		o.close()
		return nil, err
	}
	mutex := func(worker int) *concurrency.Mutex {
		return concurrency.NewMutex(sessions[s.session(worker)], s.path(o.path, worker%s.workers()))
	}
	o.lock = func(ctx context.Context, worker int) (unlock, error) {
		m := mutex(worker)
		return m.Unlock, m.Lock(ctx)
	}
	o.try = func(ctx context.Context, worker int) error {
		err := mutex(worker).TryLock(ctx)
		switch {
		case err == nil:
			return errHeld
		case errors.Is(err, concurrency.ErrLocked):
			return nil
		}
		return err
	}
	return locked(r, s, o), nil
}

// startEtcd starts a cluster.
func startEtcd(ctx context.Context, n int) ([]string, func() error, error) {
	cluster, err := stores.RunEtcd(ctx, n, nil)
	if err != nil {
		return nil, nil, err
	}
	return cluster.Addrs(), cluster.Close, nil
}

// startRedis starts servers that do not know of each other.
func startRedis(ctx context.Context, n int) ([]string, func() error, error) {
	var addrs []string
	var running []*stores.Server
	stop := func() error {
		var errs []error
		for _, s := range running {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	for range n {
		s, err := stores.RunRedis(ctx, nil)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		addrs, running = append(addrs, s.Addr), append(running, s)
	}
	return addrs, stop, nil
}

// openRedsync opens redsync, on as many servers as there are of ZooKeeper. Its waiters poll.
func openRedsync(r *round, s setup) (*opened, error) {
	servers, err := r.bench.start("redis", len(r.addrs), startRedis)
	if err != nil {
		return nil, err
	}
	o := &opened{path: r.path()}
	var clients []*redis.Client
	o.close = func() {
		for _, c := range clients {
			_ = c.Close() // no request follows
		}
	}
	var sessions []*redsync.Redsync
	for range s.sessions {
		var pools []pool.Pool
		for _, addr := range servers {
			client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: s.locks})
			clients, pools = append(clients, client), append(pools, goredis.NewPool(client))
		}
		sessions = append(sessions, redsync.New(pools...))
	}
	mutex := func(worker int) *redsync.Mutex {
		return sessions[s.session(worker)].NewMutex(s.path(o.path, worker%s.workers()), redsync.WithExpiry(s.timeout))
	}
	o.lock = func(ctx context.Context, worker int) (unlock, error) {
		m := mutex(worker)
		err := m.LockContext(ctx)
		for err != nil && ctx.Err() == nil { // a call gives up after 32 attempts
			err = m.LockContext(ctx)
		}
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, err
	}
	o.try = func(ctx context.Context, worker int) error {
		err := mutex(worker).TryLockContext(ctx)
		switch {
		case err == nil:
			return errHeld
		case errors.As(err, new(*redsync.ErrTaken)):
			return nil
		}
		return err
	}
	return locked(r, s, o), nil
}
