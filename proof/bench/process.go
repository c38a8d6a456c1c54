// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/child"
)

// A processTask is the part of a round that makes a crowd wait, in a process of its own. A session has buffers of 3 MB, of which
// it uses little: a process that has closed some gets their memory again, with all of its pages.
type processTask struct {
	Library string
	N       int
	Kind    string // inOne or inSessions; "" for waiters that are idle, in sessions

	Case    string
	Number  int
	Servers []string
	Short   bool
	Profile string // file, "" for none
}

// A measured is a value that a process prints.
type measured struct {
	Key valueKey
	V   float64
}

const printedValues = "values "

var crowdProcess = child.New("crowd", func(task processTask) error {
	if task.Kind != inOne { // the buffers count as memory in use, and would let garbage grow to the same size
		debug.SetGCPercent(min(100, max(1, 10_000/(task.N+1))))
	}
	stop, err := profileTo(task.Profile)
	if err != nil {
		return err
	}
	defer stop()
	b := newBench(context.Background(), "", os.Stderr)
	b.short, b.step = task.Short, "process"
	defer func() { _ = b.close() }()
	r := b.round(&benchCase{name: task.Case}, task.Number, task.Servers, nil)
	l := onZooKeeper[slices.IndexFunc(onZooKeeper, func(l library) bool { return l.name == task.Library })]
	s := setup{sessions: task.N + 1, locks: 1, timeout: crowdQuiet, contended: true}
	if task.Kind == inOne {
		s.sessions = 1
	}
	labelled(r, l.name, func() {
		if task.Kind == "" {
			err = r.idle(l, task.N)
		} else {
			err = r.crowd(l, s, task.N, task.Kind)
		}
	})
	if err != nil {
		return err
	}
	var values []measured
	for key, v := range r.values {
		values = append(values, measured{key, v})
	}
	text, err := json.Marshal(values)
	fmt.Println(printedValues + string(text))
	return err
})

// process has a process do a part of the round.
func (r *round) process(task processTask) error {
	task.Case, task.Number, task.Servers, task.Short = r.of.name, r.number, r.addrs, r.bench.short
	if r.bench.profile {
		task.Profile = r.bench.profileOf(fmt.Sprintf("%s-%d-%s-%.3s", r.of.name, len(r.addrs), task.Library, task.Kind))
	}
	cmd := crowdProcess.Command(r, task)
	cmd.Stderr = r.bench.log
	p, err := child.Launch(cmd)
	if err != nil {
		return err
	}
	defer p.Kill()
	line, err := p.Await(r, printedValues)
	if err != nil {
		return err
	}
	var values []measured
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, printedValues)), &values); err != nil {
		return err
	}
	for _, v := range values {
		r.values[v.Key] = v.V
	}
	return p.Wait()
}
