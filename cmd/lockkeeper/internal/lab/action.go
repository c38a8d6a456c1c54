// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// An Action is a fault, or the end of one.
type Action struct {
	Do  string `json:"do"`  // a key of the tables below
	Who string `json:"who"` // a contender, a register, or for "servers" a fault of zktest, "isolate 2"
}

// A BadActionError is the refusal of an action that does not exist, or not now.
type BadActionError struct {
	Action Action
	Reason string
}

func (e *BadActionError) Error() string {
	return strings.TrimSpace(e.Action.Do+" "+e.Action.Who) + ": " + e.Reason
}

// A memberAction changes one contender. Its event is in the journal before its effects.
type memberAction struct {
	text  string // of the event; empty if the action adds it itself
	kind  string // of the event; kindFault if empty
	state func(m string) state
	when  func(l *Lab, m *member) string // the reason why it is refused now, if any
	act   func(ctx context.Context, l *Lab, m *member) error
}

var memberActions = map[string]memberAction{
	"start": {
		when: func(l *Lab, m *member) string { return unless(!m.running.Load(), "it runs already") },
		act:  func(ctx context.Context, l *Lab, m *member) error { return l.start(ctx, m) },
	},
	"kill": {
		when: runs,
		act: func(_ context.Context, l *Lab, m *member) error {
			m.expected.Store(true)
			m.runner.kill()
			// Its last report has arrived.
			l.journal.add(m.name, kindFault, "is killed: its session lives on until it expires", state{
				m.name + ".process": "killed", m.name + ".lock": "out", m.name + ".token": "", m.name + ".server": 0,
			})
			return nil
		},
	},
	"pause": {
		when: active,
		act: func(_ context.Context, l *Lab, m *member) error {
			// It stands still before the page says so.
			if err := m.runner.pause(); err != nil {
				return err
			}
			l.journal.add(m.name, kindFault, "is paused: it does nothing, and does not know it", state{m.name + ".process": "paused"})
			return nil
		},
	},
	"resume": {
		text: "continues where it was paused", kind: kindAct, state: func(m string) state { return state{m + ".process": "running"} },
		when: func(l *Lab, m *member) string { return unless(l.is(m.name+".process", "paused"), "it is not paused") },
		act:  func(_ context.Context, _ *Lab, m *member) error { return m.runner.resume() },
	},
	"partition": {
		text: "is partitioned from ZooKeeper: no packet arrives", state: func(m string) state { return state{m + ".network": "partitioned"} },
		when: func(l *Lab, m *member) string {
			return unless(l.is(m.name+".network", "connected"), "it is partitioned")
		},
		act: func(_ context.Context, _ *Lab, m *member) error {
			m.link.Hold(zktest.Both)
			return nil
		},
	},
	"heal": {
		text: "can reach ZooKeeper again", kind: kindAct, state: func(m string) state { return state{m + ".network": "connected"} },
		when: func(l *Lab, m *member) string {
			return unless(l.is(m.name+".network", "partitioned"), "it is not partitioned")
		},
		act: func(_ context.Context, _ *Lab, m *member) error {
			m.link.Release()
			return nil
		},
	},
	"expire": {
		text: "loses its session: the servers end it now",
		when: func(_ *Lab, m *member) string { return unless(m.current() != 0, errNoSession.Error()) },
		act:  func(ctx context.Context, l *Lab, m *member) error { return l.expire(ctx, m) },
	},
	"lose-reply": {
		text: "is to lose the reply to its next request, which the servers carry out", when: active,
		act: func(_ context.Context, _ *Lab, m *member) error {
			m.link.LoseReply(1)
			return nil
		},
	},
	"join": {
		text: "is to queue for the lock", kind: kindAct, when: active,
		act: func(_ context.Context, _ *Lab, m *member) error { return m.runner.order(orderJoin) },
	},
	"leave": {
		text: "is to leave the queue, or to release the lock", kind: kindAct, when: active,
		act: func(_ context.Context, _ *Lab, m *member) error { return m.runner.order(orderLeave) },
	},
	"isolate": {
		when: func(l *Lab, m *member) string {
			if v, _ := l.journal.value("isolated"); v != nil && v != 0 {
				return fmt.Sprintf("server %v is cut off already: heal it first", v)
			}
			return unless(l.server(m.current()) != 0, "it is attached to no server")
		},
		act: func(ctx context.Context, l *Lab, m *member) error {
			server, err := l.serverOf(m)
			if err != nil {
				return err
			}
			l.journal.add("zookeeper", kindFault, fmt.Sprintf("server %d, which serves %s, is cut off from the other servers", server.ID(), m.name), state{"isolated": server.ID()})
			return server.Isolate(ctx)
		},
	},
}

// registerActions change one register.
var registerActions = map[string]struct {
	kind, text string
	away       bool
}{
	"take-away":  {kindFault, "is away: connections are refused", true},
	"bring-back": {kindAct, "is back", false},
}

// unless returns the reason, or nothing if it does not apply.
func unless(fine bool, reason string) string {
	if fine {
		return ""
	}
	return reason
}

func runs(_ *Lab, m *member) string { return unless(m.running.Load(), "it does not run") }

func active(l *Lab, m *member) string {
	return unless(m.running.Load() && !l.is(m.name+".process", "paused"), "it does not run, or is paused")
}

// is reports whether the state has a value now.
func (l *Lab) is(key, value string) bool {
	now, _ := l.journal.value(key)
	return now == value
}

// Do carries out an action. The error is a *BadActionError if it is refused.
func (l *Lab) Do(ctx context.Context, a Action) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", a.Do, a.Who, context.Cause(ctx))
	}
	defer func() { l.turn <- struct{}{} }()
	if err := l.do(ctx, a); err != nil {
		if bad := (*BadActionError)(nil); errors.As(err, &bad) {
			return err
		}
		l.journal.add(a.Who, kindError, "cannot "+a.Do+": "+err.Error(), nil)
		return fmt.Errorf("%s %s: %w", a.Do, a.Who, err)
	}
	return nil
}

// do carries out an action. The caller has the turn.
func (l *Lab) do(ctx context.Context, a Action) error {
	if a.Do == "servers" {
		return l.doServers(a)
	}
	if change, known := registerActions[a.Do]; known {
		return l.doRegister(ctx, a, change.kind, change.text, change.away)
	}
	action, known := memberActions[a.Do]
	if !known {
		all := append(slices.Sorted(maps.Keys(memberActions)), slices.Sorted(maps.Keys(registerActions))...)
		return &BadActionError{a, "no such action: must be one of " + strings.Join(append(all, "servers"), ", ")}
	}
	m := l.members[a.Who]
	if m == nil {
		return &BadActionError{a, "no such contender: must be one of " + strings.Join(names, ", ")}
	}
	if reason := action.when(l, m); reason != "" {
		return &BadActionError{a, reason}
	}
	if action.text != "" {
		difference := state{}
		if action.state != nil {
			difference = action.state(m.name)
		}
		l.journal.add(m.name, cmp.Or(action.kind, kindFault), action.text, difference)
	}
	return action.act(ctx, l, m)
}

// doServers applies a fault of zktest.
func (l *Lab) doServers(a Action) error {
	if err := l.ensemble.Apply(a.Who); err != nil {
		return &BadActionError{a, err.Error()}
	}
	kind, text, difference := kindFault, "gets the fault: "+a.Who, state{}
	var id int
	if _, err := fmt.Sscanf(a.Who, "heal %d", &id); err == nil {
		kind, text, difference["isolated"] = kindAct, fmt.Sprintf("server %d reaches the other servers again", id), 0
	} else if _, err := fmt.Sscanf(a.Who, "isolate %d", &id); err == nil {
		difference["isolated"] = id
	}
	l.journal.add("zookeeper", kind, text, difference)
	return nil
}

// doRegister makes a register unreachable or reachable.
func (l *Lab) doRegister(ctx context.Context, a Action, kind, text string, away bool) error {
	if l.registers[a.Who] == nil {
		return &BadActionError{a, "no such register: must be one of " + fenced + ", " + bare}
	}
	if now, _ := l.journal.value(a.Who + ".away"); now == away {
		return &BadActionError{a, "it " + text + " already"}
	}
	if err := l.environment.setAway(ctx, a.Who, away); err != nil {
		return err
	}
	l.journal.add(a.Who, kind, text, state{a.Who + ".away": away})
	return nil
}
