// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Names of libraries that cases compare with each other.
const (
	ours   = "Lockkeeper"
	bare   = "bare client"
	zkLock = "zk.Lock"
)

// The libraries. The bare client is not one: it does the minimum, and proves nothing.
var (
	bareClient = library{name: bare, open: openBare}
	lockkeeper = library{name: ours, open: openLockkeeper}
	goZKLock   = library{name: zkLock, open: openZKLock}

	onZooKeeper = []library{bareClient, lockkeeper, goZKLock}
	everyOne    = append(onZooKeeper, curator, kazoo, etcd, redsyncLock)
)

func openLockkeeper(r *round, s setup) (*opened, error) {
	o := &opened{path: r.path()}
	clients := make([]*recipes.Client, s.sessions)
	o.close = func() {
		_ = each(len(clients), func(i int) error { return closed(clients[i]) })
	}
	mutexes := make([]*lock.Mutex, s.workers())
	err := each(s.sessions, func(i int) (err error) {
		server := s.server
		if server == "" {
			server = r.server(i)
		}
		clients[i], err = connect(r, server, s.timeout, o.dial, nil)
		return err
	})
	for i := range mutexes {
		if err == nil {
			mutexes[i], err = lock.New(clients[s.session(i)], s.path(o.path, i), nil)
		}
	}
	if err != nil {
		o.close()
		return nil, err
	}
	o.lock = func(ctx context.Context, worker int) (unlock, error) {
		hold, err := mutexes[worker%len(mutexes)].Lock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
	o.try = func(ctx context.Context, worker int) error {
		_, err := mutexes[worker].TryLock(ctx)
		if err == nil {
			return errHeld
		}
		if errors.Is(err, lock.ErrLocked) {
			return nil
		}
		return err
	}
	return locked(r, s, o), nil
}

// connect connects a client of ours.
func connect(ctx context.Context, server string, timeout time.Duration, dial func(context.Context, string, string) (net.Conn, error), trace *recipes.Trace) (*recipes.Client, error) {
	return recipes.Connect(ctx, []string{server}, &recipes.Options{
		SessionTimeout: timeout, Dial: dial, Trace: trace, Logger: slog.New(slog.DiscardHandler),
	})
}

// closed closes a client, if there is one.
func closed(client *recipes.Client) error {
	if client == nil {
		return nil
	}
	return client.Close()
}

// dialWithin is dial as the ZooKeeper client calls it.
func (t *traffic) dialWithin(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return t.dial(ctx, network, address)
}

func openZKLock(r *round, s setup) (*opened, error) {
	o := &opened{path: r.path()}
	conns, err := dialed(r, s, o)
	if err != nil {
		return nil, err
	}
	o.lock = func(_ context.Context, worker int) (unlock, error) {
		l := zk.NewLock(conns[s.session(worker)], s.path(o.path, worker%s.workers()), zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return nil, err
		}
		return func(context.Context) error { return l.Unlock() }, nil
	}
	return locked(r, s, o), nil
}

// openBare opens the minimum of a lock: a create and a delete. In a queue, each contender waits for the node with the number
// before its own and does not list the others, which works only while no contender leaves.
func openBare(r *round, s setup) (*opened, error) {
	o := &opened{path: r.path()}
	conns, err := dialed(r, s, o)
	if err != nil {
		return nil, err
	}
	err = each(s.locks, func(i int) error { return r.parent(s.path(o.path, i)) })
	if err != nil {
		o.close()
		return nil, err
	}
	o.lock = func(_ context.Context, worker int) (unlock, error) {
		conn := conns[s.session(worker)]
		node, err := conn.Create(s.path(o.path, worker%s.workers())+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err == nil && s.contended {
			err = predecessorGone(conn, node)
		}
		if err != nil {
			return nil, err
		}
		return func(context.Context) error { return conn.Delete(node, -1) }, nil
	}
	return locked(r, s, o), nil
}

// predecessorGone waits until the node with the number before a node's does not exist.
func predecessorGone(conn *zk.Conn, node string) error {
	i := strings.LastIndexByte(node, '-') + 1
	n, err := strconv.Atoi(node[i:])
	if err != nil {
		return err
	}
	for {
		_, _, gone, err := conn.GetW(fmt.Sprintf("%s%010d", node[:i], n-1))
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if event := <-gone; event.Err != nil {
			return event.Err
		}
	}
}
