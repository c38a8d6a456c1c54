// SPDX-License-Identifier: Apache-2.0

// Package lab is a laboratory: three contenders for one lock on an ensemble in memory, a register that checks fencing tokens and one
// that does not, faults for all of them, and a page that shows what happens.
//
// Each contender is a process, so that a pause stops it as SIGSTOP does. The page shows reports only: the servers report the queue, a
// register reports the writes that it accepts and rejects, and a contender reports what it believes. No report of a contender arrives
// while it is paused. A preset is a recording of the same code in fake time.
package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// names are the contenders.
var names = []string{"a", "b", "c"}

// A runner runs a contender.
type runner interface {
	order(text string) error
	pause() error
	resume() error
	kill() // and waits until its last report was received
	stop(patience time.Duration)
	pid() int
}

// An environment starts contenders and makes registers unreachable: processes and sockets, or goroutines in fake time.
type environment interface {
	start(ctx context.Context, m *member, received func(report), ended func(error)) (runner, error)
	setAway(ctx context.Context, register string, away bool) error
}

// A member is a contender and the means to disturb it.
type member struct {
	name   string
	link   *zktest.Link
	runner runner // nil if it has never run. Only a caller with the turn uses it

	works    atomic.Int64 // how often it has checked its hold and begun to work
	running  atomic.Bool  // its runner has not ended
	expected atomic.Bool  // its runner is killed or stopped
	mu       sync.Mutex   // guards session
	session  int64        // 0 if there is none
}

// A Lab is a laboratory. Its methods are safe for concurrent use.
type Lab struct {
	journal     *journal
	queue       *queue
	registers   map[string]*register
	ensemble    *zktest.Ensemble
	environment environment
	timeout     time.Duration // of sessions
	members     map[string]*member
	turn        chan struct{} // has a value while no caller carries out an action
}

// New returns a laboratory, for an ensemble that calls Committed.
func New() *Lab {
	j := newJournal()
	l := &Lab{
		journal: j, queue: newQueue(j), members: map[string]*member{}, turn: make(chan struct{}, 1),
		registers: map[string]*register{fenced: newRegister(fenced, j), bare: newRegister(bare, j)},
	}
	l.turn <- struct{}{}
	return l
}

// Committed is the OnCommit of the ensemble.
func (l *Lab) Committed(c zktest.Commit) { l.queue.committed(c) }

// begin makes the members of an ensemble. None of them runs yet.
func (l *Lab) begin(ensemble *zktest.Ensemble, e environment, timeout time.Duration) {
	l.ensemble, l.environment, l.timeout = ensemble, e, timeout
	l.journal.add("zookeeper", kindInfo, "", state{"timeout": timeout.Milliseconds()})
	for _, name := range names {
		l.members[name] = &member{name: name, link: ensemble.Link()}
		l.journal.add(name, kindInfo, "", state{name + ".process": "not running", name + ".network": "connected", name + ".lock": "out"})
	}
}

// close ends the contenders. Those that are paused, or do not end in T, are killed.
func (l *Lab) close() {
	<-l.turn // for good
	var ending sync.WaitGroup
	for _, m := range l.members {
		if m.running.Load() {
			m.expected.Store(true)
			if l.is(m.name+".process", "paused") {
				ending.Go(m.runner.kill)
				continue
			}
			m.link.Release()
			ending.Go(func() { m.runner.stop(l.timeout) })
		}
	}
	ending.Wait()
}

// start starts a contender that does not run.
func (l *Lab) start(ctx context.Context, m *member) error {
	m.running.Store(true)
	m.expected.Store(false)
	l.journal.add(m.name, kindAct, "starts", state{m.name + ".process": "running", m.name + ".lock": "connecting"})
	b, err := l.environment.start(ctx, m, func(r report) { l.received(m, r) }, func(err error) { l.ended(m, err) })
	if err != nil {
		l.ended(m, err)
		return err
	}
	m.runner = b
	l.journal.add(m.name, kindInfo, "", state{m.name + ".pid": b.pid()})
	return nil
}

// ended records the end of a contender.
func (l *Lab) ended(m *member, err error) {
	m.running.Store(false)
	m.set(0)
	if m.expected.Load() {
		return // the action that ends it adds the event
	}
	difference := state{m.name + ".process": "not running", m.name + ".lock": "out", m.name + ".token": "", m.name + ".server": 0}
	if err != nil {
		l.journal.add(m.name, kindError, "has ended: "+err.Error(), difference)
		return
	}
	l.journal.add(m.name, kindInfo, "has ended", difference)
}

// received adds the report of a contender to the journal.
func (l *Lab) received(m *member, r report) {
	add := func(kind, text string, difference state) { l.journal.add(m.name, kind, text, difference) }
	if m.expected.Load() && (r.Kind == isEnded || r.Kind == isDetached) {
		return // the laboratory ends
	}
	lock, token, at := m.name+".lock", m.name+".token", m.name+".server"
	switch r.Kind {
	case isOpened, isAttached:
		m.set(r.Session)
		l.queue.identify(r.Session, m.name)
		server := l.server(r.Session)
		text := "has a session"
		if r.Kind == isAttached {
			text = "continues its session"
		}
		if server != 0 { // otherwise it has left that one again
			text += fmt.Sprintf(" at server %d", server)
		}
		difference := state{at: server}
		if v, _ := l.journal.value(lock); v == "connecting" {
			difference[lock] = "out"
		}
		add(kindInfo, text, difference)
	case isDetached:
		add(kindInfo, "has no connection, and tries other servers", state{at: 0})
	case isEnded:
		m.set(0)
		add(kindLoss, "has no session any more: "+r.Text, state{at: 0})
	case isWaiting:
		ahead := l.queue.owner(r.Node)
		add(kindInfo, "waits, and watches the node of "+ahead, state{lock: "waits", m.name + ".ahead": ahead})
	case isGranted:
		add(kindGrant, fmt.Sprintf("is granted the lock with token %v", r.Token), state{lock: "holds", token: r.Token.String()})
	case isLost:
		add(kindLoss, "is notified: "+r.Text, state{lock: "lost", token: ""})
	case isReleased:
		add(kindInfo, "has released the lock"+suffix(r.Text), state{lock: "out", token: ""})
	case isOut:
		add(kindInfo, "has left the queue", state{lock: "out", token: ""})
	case isRecovered:
		text := "has found its node by its name, after the reply was lost"
		if !r.Found {
			text = "has found no node of a create that was not answered"
		}
		add(kindInfo, text+suffix(r.Text), nil)
	case isWorking:
		m.works.Add(1)
		l.journal.wake()
	case isFailed:
		add(kindError, "cannot "+r.Text, nil)
	}
}

// suffix returns the text of an error as the end of a sentence.
func suffix(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// server returns the id of the server that a session is attached to, 0 if it is unknown.
func (l *Lab) server(session int64) int {
	for _, s := range l.ensemble.Sessions() {
		if s.ID == session && s.Attached {
			return s.Server
		}
	}
	return 0
}

// set records the session.
func (m *member) set(session int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = session
}

// current returns the session.
func (m *member) current() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session
}

// errNoSession is returned for a fault that needs a session.
var errNoSession = errors.New("it has no session")

// expire ends the session of a contender.
func (l *Lab) expire(ctx context.Context, m *member) error {
	session := m.current()
	if session == 0 {
		return fmt.Errorf("expire the session of %s: %w", m.name, errNoSession)
	}
	return l.ensemble.Expire(ctx, session)
}

// serverOf returns the server of a contender.
func (l *Lab) serverOf(m *member) (*zktest.Server, error) {
	id := l.server(m.current())
	if id == 0 {
		return nil, fmt.Errorf("find the server of %s: %w", m.name, errNoSession)
	}
	return l.ensemble.Server(id), nil
}
