// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"maps"
	"runtime/debug"
	"slices"

	"github.com/lockkeeper/lockkeeper/docker/torture"
)

// A Rival is a library on servers.
type Rival struct {
	torture.Rival
	Library torture.Library
	Alone   bool // it runs on one server
}

// Faults that do not exist for a rival, and why.
var (
	noContainers = map[string]string{"reap": "its parents are ordinary nodes, which nobody removes"}
	noNodes      = map[string]string{
		"delete-node": "there are no nodes", "delete-parent": "there are no nodes", "reap": "there are no nodes",
		"counter": "there is no counter", "fill-disk": "the server writes to the machine's disk",
	}
	oneServer = map[string]string{
		"cut-server": "there is one server: cut-contender does that", "cut-follower": "there is one server",
		"isolate-leader": "there is one server", "rolling-restart": "there is one server: kill-server does that",
	}
)

// All returns the rivals by name.
func All() map[string]*Rival {
	alone := both(noNodes, oneServer)
	return map[string]*Rival{
		"zklock": {
			Rival:   torture.Rival{Name: "zk.Lock, told by StateExpired (" + version("github.com/go-zookeeper/zk") + ")", Without: noContainers},
			Library: zkLock{},
		},
		"zklock-cautious": {
			Rival:   torture.Rival{Name: "zk.Lock, told by StateDisconnected (" + version("github.com/go-zookeeper/zk") + ")", Without: noContainers},
			Library: zkLock{cautious: true},
		},
		"etcd": {
			Rival: torture.Rival{
				Name:    "etcd concurrency.Mutex (" + version("go.etcd.io/etcd/client/v3") + ")",
				Servers: startEtcd, Token: "create revision", Without: noNodes,
			},
			Library: etcdMutex{},
		},
		"redsync": {
			Rival: torture.Rival{
				Name: "redsync on one Redis (" + version("github.com/go-redsync/redsync/v4") + ")", Servers: startRedis, Without: alone,
			},
			Library: redsyncMutex{}, Alone: true,
		},
		"setnx": {
			Rival: torture.Rival{
				Name:    "SET NX PX on one Redis (" + version("github.com/redis/go-redis/v9") + ")",
				Servers: startRedis, Without: alone,
			},
			Library: setNX{}, Alone: true,
		},
		"rowlock": {
			Rival: torture.Rival{
				Name:    "a row with an expiry in PostgreSQL (" + version("github.com/jackc/pgx/v5") + ")",
				Servers: startPostgres, Token: "a counter in the row", Without: alone,
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
