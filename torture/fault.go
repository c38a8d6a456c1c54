// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// A targetKind is what a fault hits.
type targetKind int

const (
	onContender targetKind = iota
	onServer
	onAll // all servers, one after the other
	onTree
)

func (k targetKind) servers() bool { return k == onServer || k == onAll }

// A heal function ends a fault. An error that matches errMissed reports that the fault had no effect.
type heal func(context.Context) error

// A kind is one kind of fault.
type kind struct {
	description string
	target      targetKind
	lasts       func(*Options) (least, most time.Duration)
	takes       []parameter

	// inject starts the fault and returns the function that ends it. On error the fault may be half done; the returned
	// function, unless nil, then undoes whatever was done.
	inject func(ctx context.Context, s *run, args []string, lasts time.Duration) (heal, error)
}

// errMissed reports that a fault had no effect.
var errMissed = errors.New("no effect")

// Kinds returns the names of all faults.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Describe returns what a fault does, in a few words.
func Describe(kind string) string { return kinds[kind].description }

// lasting returns a duration from a/16 to b/16 of T.
func lasting(a, b time.Duration) func(*Options) (least, most time.Duration) {
	return func(o *Options) (least, most time.Duration) { return o.Timeout * a / 16, o.Timeout * b / 16 }
}

func these(words ...parameter) []parameter { return words }

// kinds maps names to faults.
var kinds map[string]kind

func init() {
	kinds = map[string]kind{
		"kill-server": {
			"a server is killed with SIGKILL and started again", onServer, lasting(2, 24), these(aServer), killServer,
		},
		"pause-server": {
			"a server is paused, by its container engine or by SIGSTOP: its connections stay open, and it answers nothing", onServer,
			lasting(4, 32), these(aServer), onOne(Server.Pause, Server.Unpause),
		},
		"cut-server": {
			"a server is partitioned from all other servers and from clients", onServer, lasting(8, 32), these(aServer),
			onOne(Server.Partition, Server.Heal),
		},
		"cut-follower": {
			"a follower is partitioned from the leader, and its clients stay connected", onServer, lasting(12, 48), these(aFollower),
			onOne(Server.Isolate, Server.Heal),
		},
		"isolate-leader": {
			"the leader is isolated from its followers, with some of the clients on its side", onServer, lasting(12, 48), these(aContender), isolateLeader,
		},
		"fill-disk": {
			"a server's disk fills up", onServer, lasting(16, 32), these(aServer), fillDisk,
		},
		"rolling-restart": {
			"all servers are restarted, one after the other", onAll, restarting, nil, rollingRestart,
		},
		"kill-contender": {
			"a contender is killed with SIGKILL, and another process takes its place", onContender, lasting(1, 40), these(aTarget), killContender,
		},
		"pause-contender": {
			"a contender is stopped by SIGSTOP, for up to 3 T", onContender, lasting(3, 48), these(aTarget), pauseContender,
		},
		"cut-contender": {
			"a contender is partitioned from all servers, in both directions or one", onContender, lasting(3, 40),
			these(aTarget, aDirection), cutContender,
		},
		"refuse": {
			"a contender's connections are reset, and new ones refused", onContender, lasting(1, 24), these(aContender), refuse,
		},
		"slow": {
			"packets between a contender and the servers are delayed", onContender, lasting(8, 32), these(aContender, aDelay), slow,
		},
		"step-clock": {
			"a contender's wall clock is stepped, forward or back, and then corrected", onContender, lasting(4, 32),
			these(aContender, aStep), stepClock,
		},
		"lose-reply": {
			"the reply to a contender's join, release or heartbeat is lost together with its connection", onContender, lasting(4, 16),
			these(aContender, aRequest), loseReply,
		},
		"delete-node": {
			"an operator deletes a contender's node, the first in the queue or another", onTree, lasting(2, 8), these(aPath, aPlace),
			deleteNode,
		},
		"delete-parent": {
			"an operator deletes a lock's parent node with all its children", onTree, lasting(2, 8), these(aContainer), deleteParent,
		},
		"reap": {
			"a lock is left unused until the servers have reaped its parent node", onTree, reaping, these(aContainer), reap,
		},
		"cancel-waiters": {
			"all contenders that wait for a path are cancelled at the same time", onContender, lasting(1, 4), these(aPath), cancelWaiters,
		},
		"expire-sessions": {
			"all sessions of a contender are ended at the same time, and all its waiters join again at the same time", onContender,
			lasting(4, 16), these(aContender), expireSessions,
		},
		// Set before the run: there is nothing to inject.
		"counter": {description: "a lock's sequence counter starts near its maximum, and reaches it", target: onTree},
	}
}
