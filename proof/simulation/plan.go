// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Plan is the operations of contenders and the faults of one run. Its text form is its options and its steps, separated by
// semicolons:
//
//	servers=3 timeout=4s tick=1s sync=5 reap=1m0s paths=/a,/b processes=3 length=30s; 1.2s c0.1 lock /a 300ms 2s; 3s c2 pause; 4s zk stop 1
//
// Kept histories contain plans as text, so the names in the text form do not change.
type Plan struct {
	Options
	Processes  int           // named c0, c1, …
	Replicas   int           // of a lock service, named r0, r1, …
	OnlyServer map[int]int   // the one server that a process knows; other processes know all ("near" in the text form)
	Length     time.Duration // until all faults are healed
	Steps      []Step        // in the order of their times
}

// A Step is an operation or a fault at an instant. Target is one of
//
//   - a worker of a process, "c0.1", with the action one of operations, the path, how
//     long the work takes, and how long the worker waits or runs. A worker that is still busy begins later.
//   - a process, "c0": "pause", "wake", "crash", "vanish", "cut", "refuse", "accept", "hold DIRECTION", "release",
//     "delay DURATION", "cut-before N", "cut-after N", "expire", "delete PATH", "delete-crowd N", "refuse-watches N",
//     "cut-watches N".
//   - a caller, "x0", with a call in its text form: see Call. A caller that is still busy begins later.
//   - a replica, "r0", with a fault of a process, or "revoke PATH", which has an administrator revoke the holder of a path, or
//     "replace", which crashes it and starts another one.
//   - the ensemble, "zk": the faults of zktest.Ensemble.Apply, with the names in serverFaults and treeFaults and servers counted
//     from 0; "delete-line PATH", which deletes a queue; "supersede PATH" and "forget PATH", which end and delete a path's epochs;
//     "slow OP PATH N DURATION", which delays the next N answers to an operation on nodes below a path.
type Step struct {
	At     time.Duration
	Target string
	Action string
}

// String returns the step in the text form of a plan.
func (s Step) String() string { return fmt.Sprintf("%v %s %s", s.At, s.Target, s.Action) }

// String returns the plan in its text form.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "servers=%d timeout=%v tick=%v sync=%d reap=%v paths=%s processes=%d length=%v",
		p.Servers, p.Timeout, p.Tick, p.Sync, p.Reap, strings.Join(p.Paths, ","), p.Processes, p.Length)
	if p.Heartbeat != 0 {
		fmt.Fprintf(&b, " beat=%v", p.Heartbeat)
	}
	if p.Latency != 0 {
		fmt.Fprintf(&b, " away=%v", p.Latency)
	}
	if p.Replicas != 0 {
		fmt.Fprintf(&b, " replicas=%d", p.Replicas)
	}
	if p.LockDelay != 0 {
		fmt.Fprintf(&b, " lockdelay=%v", p.LockDelay)
	}
	if p.Crowd != 0 {
		fmt.Fprintf(&b, " crowd=%d", p.Crowd)
	}
	if p.Keeper {
		b.WriteString(" keeper=true")
	}
	if p.LongWatches != 0 {
		fmt.Fprintf(&b, " watches=%d", p.LongWatches)
	}
	for _, process := range slices.Sorted(maps.Keys(p.OnlyServer)) {
		fmt.Fprintf(&b, " near=c%d:%d", process, p.OnlyServer[process])
	}
	for _, s := range p.Steps {
		b.WriteString("; ")
		b.WriteString(s.String())
	}
	return b.String()
}

// ParsePlan parses the text form of a plan.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	parts := strings.Split(text, ";")
	for _, word := range strings.Fields(parts[0]) {
		name, value, _ := strings.Cut(word, "=")
		if err := p.set(name, value); err != nil {
			return Plan{}, fmt.Errorf("parse plan: %q: %w", word, err)
		}
	}
	for _, part := range parts[1:] {
		words := strings.Fields(part)
		if len(words) < 3 {
			return Plan{}, fmt.Errorf("parse plan: step %q: want a time, a target and an action", part)
		}
		at, err := time.ParseDuration(words[0])
		if err != nil {
			return Plan{}, fmt.Errorf("parse plan: step %q: %w", part, err)
		}
		p.Steps = append(p.Steps, Step{at, words[1], strings.Join(words[2:], " ")})
	}
	if p.Servers < 1 || p.Processes < 1 || p.Timeout <= 0 || p.Tick <= 0 || p.Length <= 0 || len(p.Paths) == 0 {
		return Plan{}, errors.New("parse plan: want positive servers, timeout, tick, processes and length, and paths")
	}
	for process, server := range p.OnlyServer {
		if process < 0 || process >= p.Processes || server < 0 || server >= p.Servers {
			return Plan{}, fmt.Errorf("parse plan: near=c%d:%d: there are %d processes and %d servers", process, server, p.Processes, p.Servers)
		}
	}
	for _, s := range p.Steps {
		if err := p.check(s); err != nil {
			return Plan{}, fmt.Errorf("parse plan: step %q: %w", s, err)
		}
	}
	return p, nil
}

// set sets an option from its text form.
func (p *Plan) set(name, value string) (err error) {
	switch name {
	case "servers":
		p.Servers, err = strconv.Atoi(value)
	case "timeout":
		p.Timeout, err = time.ParseDuration(value)
	case "tick":
		p.Tick, err = time.ParseDuration(value)
	case "sync":
		p.Sync, err = strconv.Atoi(value)
	case "near":
		process, server := 0, 0
		if _, err = fmt.Sscanf(value, "c%d:%d", &process, &server); err == nil {
			if p.OnlyServer == nil {
				p.OnlyServer = map[int]int{}
			}
			p.OnlyServer[process] = server
		}
	case "beat":
		p.Heartbeat, err = time.ParseDuration(value)
	case "away":
		p.Latency, err = time.ParseDuration(value)
	case "replicas":
		p.Replicas, err = strconv.Atoi(value)
	case "crowd":
		p.Crowd, err = strconv.Atoi(value)
	case "keeper":
		p.Keeper, err = strconv.ParseBool(value)
	case "watches":
		p.LongWatches, err = strconv.Atoi(value)
	case "lockdelay":
		p.LockDelay, err = time.ParseDuration(value)
	case "reap":
		p.Reap, err = time.ParseDuration(value)
	case "paths":
		p.Paths = strings.Split(value, ",")
	case "processes":
		p.Processes, err = strconv.Atoi(value)
	case "length":
		p.Length, err = time.ParseDuration(value)
	default:
		err = errors.New("unknown option")
	}
	return err
}

// check returns an error for a step that cannot be carried out.
func (p *Plan) check(s Step) error {
	if s.Target == "zk" {
		return nil // the ensemble rejects unknown faults when the step runs
	}
	if s.ofCaller() {
		return p.checkCall(s)
	}
	process, worker, isWorker := strings.Cut(s.Target, ".")
	if !isNamed(process, "c", p.Processes) && (isWorker || !isNamed(process, "r", p.Replicas)) {
		return fmt.Errorf("target %q is neither zk nor a caller nor one of %d processes and %d replicas nor a worker of a process", s.Target, p.Processes, p.Replicas)
	}
	if isWorker {
		if _, err := strconv.Atoi(worker); err != nil {
			return fmt.Errorf("worker %q is not a number", worker)
		}
		operation, err := s.operation()
		for path := range strings.SplitSeq(operation.Path, ",") {
			err = errors.Join(err, p.checkPath(path))
		}
		return err
	}
	verb, _, _ := strings.Cut(s.Action, " ")
	if _, known := processFaults[verb]; !known {
		return fmt.Errorf("unknown fault %q", verb)
	}
	return nil
}

// checkPath returns an error unless the path is one of the plan's.
func (p *Plan) checkPath(path string) error {
	if !slices.Contains(p.Paths, path) {
		return fmt.Errorf("path %q is none of %q", path, p.Paths)
	}
	return nil
}

// checkCall returns an error for a caller's step that cannot be carried out.
func (p *Plan) checkCall(s Step) error {
	call, err := parseCall(s.Action)
	if err != nil {
		return err
	}
	for _, name := range call.Replicas {
		if !isNamed(name, "r", p.Replicas) {
			return fmt.Errorf("replica %q is none of %d", name, p.Replicas)
		}
	}
	return p.checkPath(call.Path)
}

// isNamed reports whether the name is the prefix with a number less than n.
func isNamed(name, prefix string, n int) bool {
	number, named := strings.CutPrefix(name, prefix)
	i, err := strconv.Atoi(number)
	return named && err == nil && i >= 0 && i < n
}

// replicaName returns the name of the i-th replica.
func replicaName(i int) string { return fmt.Sprint("r", i) }

// ofCaller reports whether the step is a caller's.
func (s Step) ofCaller() bool { return strings.HasPrefix(s.Target, "x") }

// operation parses the operation of a worker's step.
func (s Step) operation() (Operation, error) {
	words := strings.Fields(s.Action)
	if len(words) != 4 {
		return Operation{}, errors.New("want an operation, a path and two durations")
	}
	if _, known := operations[words[0]]; !known {
		return Operation{}, fmt.Errorf("want one of %q", slices.Sorted(maps.Keys(operations)))
	}
	hold, err := time.ParseDuration(words[2])
	wait, err2 := time.ParseDuration(words[3])
	return Operation{Kind: words[0], Path: words[1], Hold: hold, Wait: wait}, errors.Join(err, err2)
}
