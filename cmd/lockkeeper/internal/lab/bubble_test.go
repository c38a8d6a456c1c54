// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	timeout = 4 * time.Second
	tick    = timeout / 8
)

// bubble is the environment of a recording: contenders are goroutines in fake time.
type bubble struct{ lab *Lab }

var errRefused = errors.New("connection refused")

func (w bubble) setAway(context.Context, string, bool) error { return nil }

func (w bubble) start(_ context.Context, m *member, received func(report), ended func(error)) (runner, error) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &goroutine{cancel: cancel, link: m.link, orders: make(chan string, 4), ended: make(chan struct{})}
	c := &contender{
		name: m.name, servers: w.lab.ensemble.Addrs(), timeout: w.lab.timeout, dial: b.dial, orders: b.orders,
		report: func(r report) {
			paused := b.isPaused()
			if !b.awake() {
				return
			}
			if paused {
				time.Sleep(time.Millisecond) // what the client's timers do when it continues comes after the write that it had begun
			}
			received(r)
		},
		write: func(_ context.Context, name string, x write) error {
			if !b.awake() {
				return context.Canceled
			}
			if away, _ := w.lab.journal.value(name + ".away"); away == true {
				return errRefused
			}
			return w.lab.registers[name].write(x)
		},
	}
	m.link.Delay(2 * time.Millisecond) // a network takes time: effects follow their causes on the timeline
	go func() {
		defer close(b.ended)
		ended(c.run(ctx))
	}()
	return b, nil
}

// A goroutine is a contender in fake time. A pause holds back its network, its reports and its writes, as in package simulation. What
// depends on the clock of its ZooKeeper client goes on unseen. Its end is sudden: a kill cuts its network first.
type goroutine struct {
	cancel context.CancelFunc
	link   *zktest.Link
	orders chan string
	ended  chan struct{}

	mu     sync.Mutex // guards what follows
	paused chan struct{}
	dead   bool
	conns  []net.Conn
}

func (b *goroutine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := b.link.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = append(b.conns, conn)
	return conn, nil
}

// isPaused reports whether it is paused.
func (b *goroutine) isPaused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paused != nil
}

// awake waits while it is paused, and reports whether it is alive.
func (b *goroutine) awake() bool {
	for {
		b.mu.Lock()
		paused, dead := b.paused, b.dead
		b.mu.Unlock()
		if paused == nil || dead {
			return !dead
		}
		<-paused
	}
}

func (b *goroutine) order(text string) error {
	b.orders <- text
	return nil
}

func (b *goroutine) pause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = make(chan struct{})
	b.link.Hold(zktest.Both)
	return nil
}

func (b *goroutine) resume() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.paused)
	b.paused = nil
	b.link.Release()
	return nil
}

func (b *goroutine) kill() {
	b.mu.Lock()
	b.dead = true
	if b.paused != nil {
		close(b.paused)
		b.paused = nil
	}
	b.mu.Unlock()
	b.link.Refuse(true)
	b.link.Reset()
	b.cancel()
	<-b.ended
	b.link.Refuse(false)
}

func (b *goroutine) stop(time.Duration) {
	b.cancel()
	<-b.ended
}

func (b *goroutine) pid() int { return 0 }

// inBubble runs f on a laboratory in fake time.
func inBubble(t *testing.T, f func(t *testing.T, l *Lab, p *player)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		l := New()
		ensemble := zktest.Start(t, &zktest.Options{Servers: 3, Tick: tick, InMemory: true, OnCommit: l.Committed})
		l.begin(ensemble, bubble{l}, timeout)
		defer l.close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		f(t, l, &player{ctx: ctx, lab: l, role: names})
	})
}

// events returns the events so far.
func (l *Lab) events() []Event {
	_, events, _ := l.journal.since(0)
	return events
}
