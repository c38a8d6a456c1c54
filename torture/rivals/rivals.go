// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"maps"
	"runtime/debug"
	"slices"

	"github.com/lockkeeper/lockkeeper/torture"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// A Rival is a library on servers.
type Rival struct {
	torture.Rival
	Library worker.Library
	Alone   bool // it runs on one server
}

// Faults that do not exist for a rival, and why.
var (
	noContainers = map[string]string{"reap": "its parents are ordinary nodes, which the servers never remove"}
	noLoad       = map[string]string{
		"cancel-waiters": "a client acquires one thing at a time", "expire-sessions": "a client acquires one thing at a time",
	}
	noNodes = map[string]string{
		"delete-node": "there are no nodes", "delete-parent": "there are no nodes", "reap": "there are no nodes",
		"counter": "there is no counter", "fill-disk": "the server writes to the machine's disk",
	}
	oneServer = map[string]string{
		"cut-server": "there is one server: cut-contender does that", "cut-follower": "there is one server",
		"isolate-leader": "there is one server", "rolling-restart": "there is one server: kill-server does that",
	}
)

// How the servers of those that run on one are set, and what is not tried with them: see package stores.
const (
	oneRedis = "One Redis, with an append-only file that a killed process loses nothing of and a machine without power might; " +
		"no replica, and so no failover"
	onePostgres = "One PostgreSQL, whose commits (fsync=off) outlive a killed process and not a machine without power; " +
		"no replica, and so no failover"
)

// All returns the rivals by name. A version is said to be whose it is: the lock's own, or that of the driver it is written with.
func All() map[string]*Rival {
	ordinary, elsewhere := both(noContainers, noLoad), both(noNodes, noLoad)
	alone := both(elsewhere, oneServer)
	zookeeper := "go-zookeeper/zk " + version("github.com/go-zookeeper/zk")
	goRedis := "go-redis " + version("github.com/redis/go-redis/v9")
	return map[string]*Rival{
		"zklock": {
			Rival: torture.Rival{
				Name: "zk.Lock, told by StateExpired (" + zookeeper + ")", Without: ordinary,
				NotifiedBy: "the connection's StateExpired; the lock notifies no client",
			},
			Library: zkLock{},
		},
		"zklock-cautious": {
			Rival: torture.Rival{
				Name: "zk.Lock, told by StateDisconnected (" + zookeeper + ")", Without: ordinary,
				NotifiedBy: "the connection's StateDisconnected; the lock notifies no client",
			},
			Library: zkLock{cautious: true},
		},
		"etcd": {
			Rival: torture.Rival{
				Name:    "etcd concurrency.Mutex (etcd's client " + version("go.etcd.io/etcd/client/v3") + ")",
				Servers: startEtcd, Token: "create revision", Without: elsewhere,
				NotifiedBy: "the library: Session.Done",
				Limits:     "Debian's etcd 3.4, older than its client, with its own defaults for all times",
			},
			Library: etcdMutex{},
		},
		"redsync": {
			Rival: torture.Rival{
				Name:    "redsync on one Redis (redsync " + version("github.com/go-redsync/redsync/v4") + ", " + goRedis + ")",
				Servers: startRedis, Without: alone,
				NotifiedBy: "a timer here, until Mutex.Until",
				Limits:     oneRedis + "; its quorum of several is not used",
			},
			Library: redsyncMutex{}, Alone: true,
		},
		"setnx": {
			Rival: torture.Rival{
				Name: "SET NX PX on one Redis (" + goRedis + ")", Servers: startRedis, Without: alone,
				NotifiedBy: "a timer here, from before the request", Limits: oneRedis,
			},
			Library: setNX{}, Alone: true,
		},
		"rowlock": {
			Rival: torture.Rival{
				Name:    "a row with an expiry in PostgreSQL (pgx " + version("github.com/jackc/pgx/v5") + ")",
				Servers: startPostgres, Token: "a counter in the row", Without: alone,
				NotifiedBy: "a timer here, from before the request", Limits: onePostgres,
			},
			Library: rowLock{}, Alone: true,
		},
	}
}

// Names are those of all, in order.
func Names() []string { return slices.Sorted(maps.Keys(All())) }

func both(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// version is that of a module in this program.
func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Version
			}
		}
	}
	return "unknown version"
}
