// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A link is a session's connection with the servers: the newest of its connections, whether a server serves the session, and
// since when. It is safe for concurrent use.
type link struct {
	dialer      *dialer
	dials       context.Context // done when no more connections are to be made
	stopDialing context.CancelFunc
	opened      chan struct{} // closed when the session first exists

	mu      sync.Mutex // guards what follows
	current linkState
	attach  chan struct{} // closed while a server serves the session
	detach  chan struct{} // closed while none does
	outage  bool          // that the session is detached was reported
	closing bool          // the client is to decode no more answers
}

// A linkState is the state of a link at one instant.
type linkState struct {
	id            int64      // 0 until a server has answered a handshake
	password      []byte     // of the session
	server        string     // serves the session, or did last
	wire          *wire.Wire // the newest connection, nil if there was none
	isAttached    bool       // link.attach is closed, or about to be
	wasAttached   bool       // link.opened is closed, or about to be
	attachedSince time.Time  // when isAttached became true
	detachedSince time.Time  // when isAttached became false
	backSince     time.Time  // when the last outage ended that was longer than the session's patience
}

func newLink() *link {
	dials, stopDialing := context.WithCancel(context.Background())
	return &link{
		dials: dials, stopDialing: stopDialing,
		opened: make(chan struct{}), attach: make(chan struct{}), detach: make(chan struct{}),
	}
}

// state returns the current state.
func (l *link) state() linkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// use makes w the newest connection.
func (l *link) use(w *wire.Wire) {
	l.mu.Lock()
	l.current.wire = w
	closing := l.closing
	l.mu.Unlock()
	if closing {
		w.Settle()
	}
}

// greeted records that the server has opened or continued the session.
func (l *link) greeted(id int64, password []byte, server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.id, l.current.password, l.current.server = id, password, server
}

// set records whether a server serves the session from now on, and returns the state before. An outage is long if it lasts
// longer than patience. reported is how long an outage that beginOutage has reported lasted, if it has ended.
func (l *link) set(attached bool, patience time.Duration) (before linkState, reported time.Duration) {
	l.mu.Lock()
	before = l.current
	if before.isAttached == attached {
		l.mu.Unlock()
		return before, 0
	}
	l.current.isAttached = attached
	turn := l.detach
	if attached {
		turn = l.attach
		l.detach = make(chan struct{})
		l.current.wasAttached, l.current.attachedSince = true, time.Now()
		lasted := l.current.attachedSince.Sub(l.current.detachedSince)
		if lasted > patience {
			l.current.backSince = l.current.attachedSince
		}
		if l.outage {
			reported = lasted
		}
	} else {
		l.attach = make(chan struct{})
		l.current.detachedSince = time.Now()
	}
	l.outage = false
	l.mu.Unlock()

	close(turn)
	if attached && !before.wasAttached {
		close(l.opened)
	}
	return before, reported
}

// beginOutage reports whether no server has served the session for limit at now, which was not reported before.
func (l *link) beginOutage(now time.Time, limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	begins := !l.current.isAttached && !l.outage && now.Sub(l.current.detachedSince) >= limit
	l.outage = l.outage || begins
	return begins
}

// disconnect stops the session from opening connections, and ends the current one: the client does
// not close a connection on which a server reported that the session has expired.
func (l *link) disconnect() {
	l.stopDialing()
	if w := l.state().wire; w != nil {
		w.Sever()
	}
}

// settleTimeout is how long Close waits for the rest of a frame: Client.Close promises to return in about a second.
const settleTimeout = 250 * time.Millisecond

// settle waits until the client decodes no answer any more, and ends a connection on which that takes long: it is in the
// middle of a frame whose rest does not arrive. The session then ends at its timeout. It returns the last connection.
func (l *link) settle() *wire.Wire {
	l.mu.Lock()
	l.closing = true
	w := l.current.wire
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-w.Settle():
	case <-timer.C:
		w.Sever()
	}
	return w
}

// ID returns the session's ID, 0 until it exists.
func (l *link) ID() int64 { return l.state().id }

// Password returns the session's password, with which another process can close it.
func (l *link) Password() []byte { return l.state().password }

// Server returns the server that serves the session, or did last.
func (l *link) Server() string { return l.state().server }

// Opened returns a channel that is closed when the session first exists.
func (l *link) Opened() <-chan struct{} { return l.opened }

// DialingStopped returns a channel that is closed when the session opens no more connections.
func (l *link) DialingStopped() <-chan struct{} { return l.dials.Done() }

// Attached returns a channel that is closed while a server serves the session.
func (l *link) Attached() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attach
}

// Served reports whether a server serves the session, and returns a channel that is closed
// while none does.
func (l *link) Served() (served bool, detached <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current.isAttached, l.detach
}

// IsServed reports whether a server serves the session at this moment.
func (l *link) IsServed() bool { return l.state().isAttached }

// Why returns an error that names each server that could not be reached, with the reason.
func (l *link) Why() error { return l.dialer.why() }

// Audible records that a server has answered another session of the client, which was opened after this one was over. It is called
// once.
func (l *link) Audible() { close(l.dialer.audible) }

// RunBlocking runs f, which may not return, on a goroutine that Close waits for, for at most
// CloseTimeout.
func (l *link) RunBlocking(f func()) { l.dialer.blocking.Run(f) }

// IsClosed reports whether a channel on which nothing is sent, such as a signal of the session, is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
