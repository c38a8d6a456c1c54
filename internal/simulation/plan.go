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

// A Plan is what happens in a run: what contenders do, and what goes wrong meanwhile. It has a text form, which is its
// options and its steps, with semicolons between:
//
//	servers=3 timeout=4s tick=1s sync=5 reap=1m0s paths=/a,/b processes=3 length=30s; 1.2s c0.1 lock /a 300ms 2s; 3s c2 pause; 4s zk stop 1
type Plan struct {
	Options
	Processes int           // named c0, c1, …
	Near      map[int]int   // which server a process knows of, where it does not know of all
	Length    time.Duration // until everything is healed
	Steps     []Step        // in the order of their times
}

// A Step is one thing that happens. Who is
//
//   - a worker of a process, "c0.1": one of "lock", "busy", "try", "campaign", "run" and "reign", with the path, how long the work takes
//     and how long it waits or runs. A worker that is busy begins later.
//   - a process, "c0": "pause", "wake", "crash", "vanish", "cut", "refuse", "accept", "hold DIRECTION", "release",
//     "delay DURATION", "cut-before N", "cut-after N", "expire", "delete PATH", "delete-crowd N".
//   - the ensemble, "zk": what zktest.Ensemble.Apply takes, or "delete-line PATH", and of a path's epochs "supersede PATH"
//     and "forget PATH".
type Step struct {
	At   time.Duration
	Who  string
	What string
}

func (s Step) String() string { return fmt.Sprintf("%v %s %s", s.At, s.Who, s.What) }

func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "servers=%d timeout=%v tick=%v sync=%d reap=%v paths=%s processes=%d length=%v",
		p.Servers, p.Timeout, p.Tick, p.Sync, p.Reap, strings.Join(p.Paths, ","), p.Processes, p.Length)
	if p.Beat != 0 {
		fmt.Fprintf(&b, " beat=%v", p.Beat)
	}
	if p.Away != 0 {
		fmt.Fprintf(&b, " away=%v", p.Away)
	}
	if p.Crowd != 0 {
		fmt.Fprintf(&b, " crowd=%d", p.Crowd)
	}
	for _, process := range slices.Sorted(maps.Keys(p.Near)) {
		fmt.Fprintf(&b, " near=c%d:%d", process, p.Near[process])
	}
	for _, s := range p.Steps {
		b.WriteString("; ")
		b.WriteString(s.String())
	}
	return b.String()
}

// ParsePlan reads what String writes.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	parts := strings.Split(text, ";")
	for _, word := range strings.Fields(parts[0]) {
		name, value, _ := strings.Cut(word, "=")
		if err := p.set(name, value); err != nil {
			return Plan{}, fmt.Errorf("plan: %q: %w", word, err)
		}
	}
	for _, part := range parts[1:] {
		words := strings.Fields(part)
		if len(words) < 3 {
			return Plan{}, fmt.Errorf("plan: step %q: want a time, who and what", part)
		}
		at, err := time.ParseDuration(words[0])
		if err != nil {
			return Plan{}, fmt.Errorf("plan: step %q: %w", part, err)
		}
		p.Steps = append(p.Steps, Step{at, words[1], strings.Join(words[2:], " ")})
	}
	if p.Servers < 1 || p.Processes < 1 || p.Timeout <= 0 || p.Tick <= 0 || p.Length <= 0 || len(p.Paths) == 0 {
		return Plan{}, errors.New("plan: wants servers, timeout, tick, paths, processes and length")
	}
	for process, server := range p.Near {
		if process < 0 || process >= p.Processes || server < 0 || server >= p.Servers {
			return Plan{}, fmt.Errorf("plan: near=c%d:%d: there are %d processes and %d servers", process, server, p.Processes, p.Servers)
		}
	}
	for _, s := range p.Steps {
		if err := p.check(s); err != nil {
			return Plan{}, fmt.Errorf("plan: step %q: %w", s, err)
		}
	}
	return p, nil
}

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
			if p.Near == nil {
				p.Near = map[int]int{}
			}
			p.Near[process] = server
		}
	case "beat":
		p.Beat, err = time.ParseDuration(value)
	case "away":
		p.Away, err = time.ParseDuration(value)
	case "crowd":
		p.Crowd, err = strconv.Atoi(value)
	case "reap":
		p.Reap, err = time.ParseDuration(value)
	case "paths":
		p.Paths = strings.Split(value, ",")
	case "processes":
		p.Processes, err = strconv.Atoi(value)
	case "length":
		p.Length, err = time.ParseDuration(value)
	default:
		err = errors.New("no such option")
	}
	return err
}

// check says what is wrong with a step.
func (p *Plan) check(s Step) error {
	if s.Who == "zk" {
		return nil // the ensemble says itself what it does not know
	}
	process, worker, isWorker := strings.Cut(s.Who, ".")
	number, named := strings.CutPrefix(process, "c")
	if n, err := strconv.Atoi(number); err != nil || !named || n < 0 || n >= p.Processes {
		return fmt.Errorf("%q is neither zk nor one of %d processes nor a worker of one", s.Who, p.Processes)
	}
	if isWorker {
		if _, err := strconv.Atoi(worker); err != nil {
			return fmt.Errorf("worker %q is not a number", worker)
		}
		ask, err := s.ask()
		if err == nil && !slices.Contains(p.Paths, ask.Path) {
			err = fmt.Errorf("path %q is none of %q", ask.Path, p.Paths)
		}
		return err
	}
	verb, _, _ := strings.Cut(s.What, " ")
	if _, known := processFaults[verb]; !known {
		return fmt.Errorf("unknown fault %q", verb)
	}
	return nil
}

// ask reads what a worker is to do.
func (s Step) ask() (Ask, error) {
	words := strings.Fields(s.What)
	if len(words) != 4 || !slices.Contains(ways, words[0]) {
		return Ask{}, fmt.Errorf("want one of %q, and a path and two durations", ways)
	}
	hold, err := time.ParseDuration(words[2])
	wait, err2 := time.ParseDuration(words[3])
	return Ask{How: words[0], Path: words[1], Hold: hold, Wait: wait}, errors.Join(err, err2)
}
