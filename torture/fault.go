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

// What a fault hits.
type targetKind int

const (
	onContender targetKind = iota
	onServer
	onAll // servers, one after the other
	onTree
)

func (k targetKind) servers() bool { return k == onServer || k == onAll }

// heal takes a fault back. An error that matches errMissed says that there was none: nothing has come of it.
type heal func(context.Context) error

// A kind of fault.
type kind struct {
	description string
	target      targetKind
	lasts       func(*Options) (least, most time.Duration)
	takes       []parameter

	// inject does it, and returns what takes it back. With an error it may have done a part, and what it returns then, unless
	// that is nil, takes back whatever was done.
	inject func(ctx context.Context, s *run, args []string, lasts time.Duration) (heal, error)
}

// errMissed says that a fault had no effect.
var errMissed = errors.New("no effect")

// Kinds are the names of all faults.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Describe is what a fault does, in a few words.
func Describe(kind string) string { return kinds[kind].description }

// lasting is from a/16 to b/16 of T.
func lasting(a, b time.Duration) func(*Options) (least, most time.Duration) {
	return func(o *Options) (least, most time.Duration) { return o.Timeout * a / 16, o.Timeout * b / 16 }
}

func these(words ...parameter) []parameter { return words }

// kinds are all faults, by name.
var kinds map[string]kind

func init() {
	kinds = map[string]kind{
		"kill-server": {
			"a server is ended by kill -9, and started again", onServer, lasting(2, 24), these(aServer), killServer,
		},
		"pause-server": {
			"a server is frozen, by its container's engine or by SIGSTOP: its connections stay, and nothing is answered", onServer,
			lasting(4, 32), these(aServer), onOne(Server.Pause, Server.Unpause),
		},
		"cut-server": {
			"a server is cut off from all others and from clients", onServer, lasting(8, 32), these(aServer),
			onOne(Server.Cut, Server.Mend),
		},
		"cut-follower": {
			"a follower is cut off from the leader, and its clients stay", onServer, lasting(12, 48), these(aFollower),
			onOne(Server.CutFromPeers, Server.Mend),
		},
		"isolate-leader": {
			"the leader is cut off with some of the clients", onServer, lasting(12, 48), these(aContender), isolateLeader,
		},
		"fill-disk": {
			"a server's disk is full", onServer, lasting(16, 32), these(aServer), fillDisk,
		},
		"rolling-restart": {
			"all servers are restarted, one after the other", onAll, restarting, nil, rollingRestart,
		},
		"kill-contender": {
			"a contender is ended by kill -9, and another begins", onContender, lasting(1, 40), these(aTarget), killContender,
		},
		"pause-contender": {
			"a contender is stopped by SIGSTOP, for up to 3 T", onContender, lasting(3, 48), these(aTarget), pauseContender,
		},
		"cut-contender": {
			"what passes between a contender and all servers is lost, both ways or one way", onContender, lasting(3, 40),
			these(aTarget, aDirection), cutContender,
		},
		"refuse": {
			"a contender's connections are reset and refused", onContender, lasting(1, 24), these(aContender), refuse,
		},
		"slow": {
			"what passes between a contender and the servers takes long", onContender, lasting(8, 32), these(aContender, aDelay), slow,
		},
		"step-clock": {
			"a contender's wall clock is stepped, forward or back, and set right again", onContender, lasting(4, 32),
			these(aContender, aStep), stepClock,
		},
		"lose-reply": {
			"the answer to a join, a release or a heartbeat of a contender is lost with its connection", onContender, lasting(4, 16),
			these(aContender, aRequest), loseReply,
		},
		"delete-node": {
			"an operator deletes a contender's node, the first in line or another", onTree, lasting(2, 8), these(aPath, aPlace),
			deleteNode,
		},
		"delete-parent": {
			"an operator deletes a lock's parent with all in it", onTree, lasting(2, 8), these(aContainer), deleteParent,
		},
		"reap": {
			"a lock rests until the servers have removed its parent", onTree, reaping, these(aContainer), reap,
		},
		"cancel-waiters": {
			"all contenders that wait for a path are cancelled at the same moment", onContender, lasting(1, 4), these(aPath), cancelWaiters,
		},
		"expire-sessions": {
			"all sessions of a contender are ended at the same moment, and all that waited joins again at the same moment", onContender,
			lasting(4, 16), these(aContender), expireSessions,
		},
		// Planted at the start: there is nothing to inject.
		"counter": {description: "a lock's counter of sequence numbers is near its end, and reaches it", target: onTree},
	}
}
