// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A Scenario is a short script for a few processes.
type Scenario struct {
	Name   string
	Script func(w *World)
}

// Run runs the scenario in a synctest bubble. sprung reports whether it reached the frame of the last cut.
func (s Scenario) Run(v Variant, c Cut) (events []history.Event, sprung bool, err error) {
	const timeout = 4 * time.Second
	w, err := newWorld(Options{
		Servers: v.Servers, Timeout: timeout, Tick: timeout / 4, Reap: time.Hour, Paths: []string{lockPath, secondPath, thirdPath}, Flight: v.Lag + 4*defaultLatency, SASL: v.SASL, Keeper: v.Keeper,
		LockDelay: s.lockDelay(),
	}, fmt.Sprintf("%s, %s, %v", s.Name, v.Name, c))
	if err != nil {
		return nil, false, err
	}
	w.cut, w.lag = c, v.Lag
	if v.Lag > 0 {
		for _, follower := range w.ensemble.Servers()[1:] {
			follower.Lag(v.Lag)
		}
	}
	s.Script(w)
	w.settle()
	w.close()
	return w.recorder.Events(), w.trap != nil && w.trap.Sprung(), errors.Join(w.problems...)
}

// setTraps sets the cuts of a process that is about to connect.
func (w *World) setTraps(name string, link *zktest.Link) {
	if w.cut.Victim != name {
		return
	}
	lose, other := link.LoseRequest, link.LoseReply
	if w.cut.After {
		lose, other = other, lose
	}
	w.trap = lose(w.cut.N)
	if w.cut.Then > 0 {
		w.trap = other(w.cut.N + w.cut.Then)
	}
}

// The paths of a second and a third lock, in scenarios that have several.
const (
	secondPath = "/k"
	thirdPath  = "/m"
)
