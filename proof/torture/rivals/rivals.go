// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"maps"
	"runtime/debug"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// A Rival is a library on servers.
type Rival struct {
	torture.Rival
	Library worker.Library
	Count   int // of its servers
}

// Faults that do not exist for a rival, with the reasons.
var (
	noContainers = map[string]string{"reap": "its parents are ordinary nodes, which the servers never remove"}
	noLoad       = map[string]string{
		"cancel-waiters": "a client acquires one lock at a time", "expire-sessions": "a client acquires one lock at a time",
	}
	noNodes = map[string]string{
		"delete-node": "there are no nodes", "delete-parent": "there are no nodes", "reap": "there are no nodes",
		"counter": "there is no counter", "fill-disk": "the server writes to the machine's disk",
	}
	independent = map[string]string{
		"partition-server": "the servers do not know of each other: pause-server does that", "partition-follower": "no server leads",
		"isolate-leader": "no server leads",
	}
	oneServer = map[string]string{
		"partition-server": "there is one server: partition-contender does that", "partition-follower": "there is one server",
		"isolate-leader": "there is one server", "rolling-restart": "there is one server: kill-server does that",
	}
)

// fiveRedis is the number of servers of a quorum.
const fiveRedis = 5

// Limits of the rivals that run on one server: its configuration, and what is not tried. See package stores.
const (
	oneRedis = "One Redis with an append-only file, which loses nothing when the process is killed, and might when the machine fails; " +
		"no replica, and so no failover"
	onePostgres = "One PostgreSQL, whose commits (fsync=off) survive a kill of the process, and not a failure of the machine; " +
		"no replica, and so no failover"
)

// All returns the rivals by name. Each version names the lock library, or the driver that the lock uses.
func All() map[string]*Rival {
	ordinary, elsewhere := both(noContainers, noLoad), both(noNodes, noLoad)
	single := both(elsewhere, oneServer)
	zookeeper := "go-zookeeper/zk " + version("github.com/go-zookeeper/zk")
	goRedis := "go-redis " + version("github.com/redis/go-redis/v9")
	return map[string]*Rival{
		"zklock": {
			Rival: torture.Rival{
				Name: "zk.Lock, notified by StateExpired (" + zookeeper + ")", Without: ordinary,
				NotifiedBy: "the connection's StateExpired; the lock notifies no client",
			},
			Library: zkLock{}, Count: 3,
		},
		"zklock-cautious": {
			Rival: torture.Rival{
				Name: "zk.Lock, notified by StateDisconnected (" + zookeeper + ")", Without: ordinary,
				NotifiedBy: "the connection's StateDisconnected; the lock notifies no client",
			},
			Library: zkLock{cautious: true}, Count: 3,
		},
		"etcd": {
			Rival: torture.Rival{
				Name:    "etcd concurrency.Mutex (etcd's client " + version("go.etcd.io/etcd/client/v3") + ")",
				Servers: startEtcd, Token: "create revision", Without: elsewhere,
				NotifiedBy: "the library: Session.Done",
				Limits:     "Debian's etcd 3.4, older than its client, with its defaults for all times",
			},
			Library: etcdMutex{}, Count: etcdMembers,
		},
		"redsync": {
			Rival: torture.Rival{
				Name:    "redsync on one Redis (redsync " + version("github.com/go-redsync/redsync/v4") + ", " + goRedis + ")",
				Servers: startRedis(1), Without: single,
				NotifiedBy: "a timer here, until Mutex.Until",
				Limits:     oneRedis,
			},
			Library: redsyncMutex{}, Count: 1,
		},
		"redlock": {
			Rival: torture.Rival{
				Name:    "redsync on five Redis (redsync " + version("github.com/go-redsync/redsync/v4") + ", " + goRedis + ")",
				Servers: startRedis(fiveRedis), Without: both(elsewhere, independent),
				NotifiedBy: "a timer here, until Mutex.Until",
				Limits: "Five Redis that do not know of each other, each with an append-only file, which loses nothing when the process " +
					"is killed, and might when the machine fails; no server's clock is stepped",
			},
			Library: redsyncMutex{}, Count: fiveRedis,
		},
		"setnx": {
			Rival: torture.Rival{
				Name: "SET NX PX on one Redis (" + goRedis + ")", Servers: startRedis(1), Without: single,
				NotifiedBy: "a timer here, from before the request", Limits: oneRedis,
			},
			Library: setNX{}, Count: 1,
		},
		"rowlock": {
			Rival: torture.Rival{
				Name:    "a row with an expiry in PostgreSQL (pgx " + version("github.com/jackc/pgx/v5") + ")",
				Servers: startPostgres, Token: "a counter in the row", Without: single,
				NotifiedBy: "a timer here, from before the request", Limits: onePostgres,
			},
			Library: rowLock{}, Count: 1,
		},
	}
}

// Names returns the names of all rivals, sorted.
func Names() []string { return slices.Sorted(maps.Keys(All())) }

// both returns the entries of two maps.
func both(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// version returns the version of a module in this program.
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
