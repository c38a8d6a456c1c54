// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"slices"
	"time"
)

// Options describe a run. Check completes them.
type Options struct {
	Duration   time.Duration // of the run, without start and end; at least 10 s, at most 24 h
	Seed       uint64        // of the plan and of the contenders' operations
	Servers    int           // 3 or 5
	Faults     []string      // kinds; default all
	Contenders int           // processes, 1 to 16; default 4
	Clients    int           // of each, 1 to 16; default 3
	Waiters    int           // of each, further contenders on each path, on one further client; at most 1000
	Holds      int           // of each, further uncontended locks on that client; at most 10000
	Timeout    time.Duration // T, 2 s to 40 s; default 4 s. The servers' tick is an eighth of it
	Plan       []Fault       // nil: GeneratePlan generates one
	Contender  []string      // command of a contender
	Name       string        // of the contenders, in the result; default: their command
	Steps      bool          // the contenders obey worker.Step: see BuildStepping
	Recipes    bool          // the contenders exercise all recipes, which only this library has: see worker.Spec
	Replicas   int           // of the lock service, 1 to 8, which every second contender then uses; 0: there is no service
	Replica    []string      // command of a replica, to which the flags of lockkeeper serve are added
	Mutant     string        // patch that the contenders and replicas were built with, for the result, see Build; "" for none

	// Rival runs instead of this library, unless nil. The contenders' command must then be the rival's, too.
	Rival *Rival

	// Logs is a folder in which the servers' transaction logs are kept, one subfolder for each server; "" for none.
	Logs string

	Log func(format string, args ...any) // nil: no log

	_ struct{}
}

// root is the parent of all paths of a run. With a lock service it is the service's root.
const root = "/torture"

// namespace returns the parent of the paths that contenders contend for: with a lock service, one of its namespaces.
func (o *Options) namespace() string {
	if o.Replicas > 0 {
		return root + "/locks"
	}
	return root
}

// containers returns the paths that are container nodes, so that servers reap them. The counted path is an ordinary node.
func (o *Options) containers() []string {
	return []string{o.namespace() + "/a", o.namespace() + "/b", o.namespace() + "/c"}
}

func (o *Options) countedPath() string { return o.namespace() + "/counted" }

// paths returns the paths that contenders contend for.
func (o *Options) paths() []string {
	if slices.Contains(o.Faults, "counter") {
		return append(o.containers(), o.countedPath())
	}
	return o.containers()
}

// expiry returns the longest time for which what a killed contender has left can last: T, or the TTL of a waiter of the lock
// service, 30 s × 33/32, after another client has seen it. Two of these can follow each other.
func (o *Options) expiry() time.Duration {
	if o.Replicas > 0 {
		return 2 * 31 * time.Second
	}
	return o.Timeout
}

// tokenless reports whether the library has no tokens, so that no register can check them.
func (o *Options) tokenless() bool { return o.Rival != nil && o.Rival.Token == "" }

// tick returns the servers' tickTime.
func (o *Options) tick() time.Duration { return (o.Timeout / 8).Truncate(time.Millisecond) }

// diskSize returns the size of the servers' disks, 0 if no fault fills them. An hour's transactions take some 100 MB.
func (o *Options) diskSize() int64 {
	if slices.Contains(o.Faults, "fill-disk") {
		return 1 << 30
	}
	return 0
}

// sixteenthsOfT returns durations of a/16 and b/16 of T.
func sixteenthsOfT(a, b time.Duration) func(*Options) (least, most time.Duration) {
	return func(o *Options) (least, most time.Duration) { return o.Timeout * a / 16, o.Timeout * b / 16 }
}
