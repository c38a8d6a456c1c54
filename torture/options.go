// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	Mutant     string        // patch that the contenders were built with, for the result, see Build; "" for none

	// Rival runs instead of this library, unless nil. The contenders' command must then be the rival's, too.
	Rival *Rival

	// Logs is a folder in which the servers' transaction logs are kept, one subfolder for each server; "" for none.
	Logs string

	Log func(format string, args ...any) // nil: no log

	_ struct{}
}

// root is the parent of all paths of a run.
const root = "/torture"

// containers are the paths that are container nodes, so that servers reap them. The counted path is an ordinary node.
var containers = []string{root + "/a", root + "/b", root + "/c"}

const countedPath = root + "/counted"

// paths returns the paths that contenders contend for.
func (o *Options) paths() []string {
	if slices.Contains(o.Faults, "counter") {
		return append(slices.Clone(containers), countedPath)
	}
	return containers
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

// CheckGiven returns an error for zeros that Check would replace by defaults. Call it where a user has written the values.
func (o *Options) CheckGiven() error {
	switch {
	case o.Contenders == 0:
		return errors.New("0 contenders: allowed are 1 to 16")
	case o.Clients == 0:
		return errors.New("0 clients: allowed are 1 to 16")
	case o.Timeout == 0:
		return errors.New("session timeout 0s: allowed are 2s to 40s")
	}
	return nil
}

// Check completes the options. Its error states the allowed values.
func (o *Options) Check() error {
	if o.Duration < 10*time.Second || o.Duration > 24*time.Hour {
		return fmt.Errorf("duration %v: allowed are 10s to 24h", o.Duration)
	}
	if o.Servers != 3 && o.Servers != 5 && (o.Rival == nil || o.Servers != 1) {
		return fmt.Errorf("%d servers: allowed are 3 and 5", o.Servers)
	}
	if len(o.Faults) == 0 {
		o.Faults = Kinds()
	}
	if o.Rival != nil {
		o.Faults = slices.DeleteFunc(slices.Clone(o.Faults), func(name string) bool { return o.Rival.Without[name] != "" })
	}
	for _, name := range o.Faults {
		if _, known := kinds[name]; !known {
			return fmt.Errorf("fault %q: allowed are %s", name, strings.Join(Kinds(), ", "))
		}
	}
	if slices.Contains(o.Faults, "step-clock") && !o.Steps {
		return errors.New("fault step-clock: these contenders' clocks cannot be stepped")
	}
	for _, n := range []struct {
		name   string
		value  *int
		ifZero int
	}{{"contenders", &o.Contenders, 4}, {"clients", &o.Clients, 3}} {
		if *n.value == 0 {
			*n.value = n.ifZero
		}
		if *n.value < 1 || *n.value > 16 {
			return fmt.Errorf("%d %s: allowed are 1 to 16", *n.value, n.name)
		}
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{{"waiters", o.Waiters, 1000}, {"holds", o.Holds, 10_000}} {
		if n.value < 0 || n.value > n.most {
			return fmt.Errorf("%d %s: allowed are 0 to %d", n.value, n.name, n.most)
		}
		if n.value > 0 && o.Rival != nil {
			return fmt.Errorf("%d %s: only contenders of this library support them", n.value, n.name)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 4 * time.Second
	}
	if o.Timeout < 2*time.Second || o.Timeout > 40*time.Second {
		return fmt.Errorf("session timeout %v: allowed are 2s to 40s", o.Timeout)
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return checkPlan(o, o.Plan)
}
