// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"maps"
	"slices"
	"syscall"
	"time"
)

// A targetKind is what a fault hits.
type targetKind int

const (
	onContender targetKind = iota
	onServer
	onAll // all servers, one after the other
	onTree
	onReplica // of the lock service, which must be there
)

func (k targetKind) servers() bool { return k == onServer || k == onAll }

// A kind is one kind of fault.
type kind struct {
	description string // for people, in a few words
	target      targetKind
	lasts       func(*Options) (least, most time.Duration) // until it is healed
	parameters  []parameter

	// inject starts the fault and returns the function that heals it. On error, part of the fault may have taken effect; the
	// returned function, unless nil, then undoes that part.
	inject func(ctx context.Context, r *run, args []string, lasts time.Duration) (heal, error)
}

// Kinds returns the names of all faults.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// ReplicaKinds returns the names of the faults that exist only with a lock service.
func ReplicaKinds() []string {
	return slices.DeleteFunc(Kinds(), func(name string) bool { return kinds[name].target != onReplica })
}

// Describe returns a description of a kind of fault, in a few words.
func Describe(kind string) string { return kinds[kind].description }

// kinds maps names to faults.
var kinds map[string]kind

func init() {
	kinds = map[string]kind{
		"kill-server": {
			description: "a server is killed with SIGKILL and started again",
			target:      onServer, lasts: sixteenthsOfT(2, 24), parameters: []parameter{serverParam}, inject: killServer,
		},
		"pause-server": {
			description: "a server is paused, by its container engine or by SIGSTOP: its connections stay open, and it answers nothing",
			target:      onServer, lasts: sixteenthsOfT(4, 32), parameters: []parameter{serverParam}, inject: onOneServer(Server.Pause, Server.Unpause),
		},
		"partition-server": {
			description: "a server is partitioned from all other servers and from clients",
			target:      onServer, lasts: sixteenthsOfT(8, 32), parameters: []parameter{serverParam}, inject: onOneServer(Server.Partition, Server.Heal),
		},
		"partition-follower": {
			description: "a follower is partitioned from the leader, and its clients stay connected",
			target:      onServer, lasts: sixteenthsOfT(12, 48), parameters: []parameter{followerParam}, inject: onOneServer(Server.Isolate, Server.Heal),
		},
		"isolate-leader": {
			description: "the leader is isolated from its followers, with some of the clients on its side",
			target:      onServer, lasts: sixteenthsOfT(12, 48), parameters: []parameter{contenderParam}, inject: isolateLeader,
		},
		"fill-disk": {
			description: "a server's disk fills up",
			target:      onServer, lasts: sixteenthsOfT(16, 32), parameters: []parameter{serverParam}, inject: fillDisk,
		},
		"rolling-restart": {
			description: "all servers are restarted, one after the other",
			target:      onAll, lasts: restarting, inject: rollingRestart,
		},
		"kill-contender": {
			description: "a contender is killed with SIGKILL, and another process takes its place",
			target:      onContender, lasts: sixteenthsOfT(1, 40), parameters: []parameter{targetParam}, inject: killContender,
		},
		"pause-contender": {
			description: "a contender is stopped by SIGSTOP, for up to 3 T",
			target:      onContender, lasts: sixteenthsOfT(3, 48), parameters: []parameter{targetParam}, inject: pauseContender,
		},
		"partition-contender": {
			description: "a contender is partitioned from all servers, in both directions or one",
			target:      onContender, lasts: sixteenthsOfT(3, 40), parameters: []parameter{targetParam, directionParam}, inject: cutContender,
		},
		"refuse": {
			description: "a contender's connections are reset, and new ones refused",
			target:      onContender, lasts: sixteenthsOfT(1, 24), parameters: []parameter{contenderParam}, inject: refuse,
		},
		"slow": {
			description: "packets between a contender and the servers are delayed",
			target:      onContender, lasts: sixteenthsOfT(8, 32), parameters: []parameter{contenderParam, delayParam}, inject: slow,
		},
		"step-clock": {
			description: "a contender's wall clock is stepped, forward or back, and then corrected",
			target:      onContender, lasts: sixteenthsOfT(4, 32), parameters: []parameter{steppedParam, stepParam}, inject: stepClock,
		},
		"lose-reply": {
			description: "the reply to a contender's join, release or heartbeat is lost together with its connection",
			target:      onContender, lasts: sixteenthsOfT(4, 16), parameters: []parameter{contenderParam, requestParam}, inject: loseReply,
		},
		"delete-node": {
			description: "an operator deletes a contender's node, the first in the queue or another",
			target:      onTree, lasts: sixteenthsOfT(2, 8), parameters: []parameter{deletedParam, positionParam}, inject: deleteNode,
		},
		"delete-parent": {
			description: "an operator deletes a lock's parent node with all its children",
			target:      onTree, lasts: sixteenthsOfT(2, 8), parameters: []parameter{containerParam}, inject: deleteParent,
		},
		"reap": {
			description: "a lock is left unused until the servers have reaped its parent node",
			target:      onTree, lasts: reaping, parameters: []parameter{containerParam}, inject: reap,
		},
		"cancel-waiters": {
			description: "all contenders that wait for a path are cancelled at the same time",
			target:      onContender, lasts: sixteenthsOfT(1, 4), parameters: []parameter{pathParam}, inject: cancelWaiters,
		},
		"expire-sessions": {
			description: "all sessions of a contender are ended at the same time, and all its waiters join again at the same time",
			target:      onContender, lasts: sixteenthsOfT(4, 16), parameters: []parameter{sessionParam}, inject: expireSessions,
		},
		"kill-replica": {
			description: "a replica of the lock service is killed with SIGKILL, and another process takes its place",
			target:      onReplica, lasts: sixteenthsOfT(1, 24), parameters: []parameter{replicaParam}, inject: endReplica(syscall.SIGKILL),
		},
		"restart-replica": {
			description: "a replica is stopped in order, by SIGTERM, and another process takes its place",
			target:      onReplica, lasts: sixteenthsOfT(1, 16), parameters: []parameter{replicaParam}, inject: endReplica(syscall.SIGTERM),
		},
		"pause-replica": {
			description: "a replica is stopped by SIGSTOP, for up to 3 T",
			target:      onReplica, lasts: sixteenthsOfT(3, 48), parameters: []parameter{replicaParam}, inject: pauseReplica,
		},
		"partition-replica": {
			description: "a replica is partitioned from all servers, in both directions or one",
			target:      onReplica, lasts: sixteenthsOfT(3, 40), parameters: []parameter{replicaParam, directionParam}, inject: cutReplica,
		},
		"partition-callers": {
			description: "a replica is partitioned from all its callers, in both directions or one",
			target:      onReplica, lasts: sixteenthsOfT(3, 40), parameters: []parameter{replicaParam, directionParam}, inject: cutCallers,
		},
		"revoke": {
			description: "an administrator of the lock service releases a lock by force, and its holder is notified",
			target:      onReplica, lasts: sixteenthsOfT(12, 24), parameters: []parameter{revokedParam}, inject: revoke,
		},
		// Set before the run: there is nothing to inject.
		"counter": {description: "a lock's sequence counter starts near its maximum, and reaches it", target: onTree},
	}
}

// Kinds returns the kinds of faults that exist in such a run.
func (o *Options) Kinds() []string {
	if o.Replicas > 0 {
		return Kinds()
	}
	return slices.DeleteFunc(Kinds(), func(name string) bool { return kinds[name].target == onReplica })
}
