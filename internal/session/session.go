// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/deadline"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A Session is one ZooKeeper session and the ZooKeeper client that runs it. The two begin and
// end together, because go-zookeeper opens another session by itself when one expires, and
// runs in it the requests that were queued for the first.
type Session struct {
	config     Config
	events     Events
	conn       *zk.Conn
	dialer     *dialer
	lease      *deadline.Lease
	Nodes      *nodes.Set // those that may exist in the session
	heartbeats heartbeatState
	watches    watches

	turns turns

	ctx         context.Context // done when the session is over, with the reason
	cancel      context.CancelCauseFunc
	dials       context.Context // done when no more connections are to be made
	stopDialing context.CancelFunc
	opened      chan struct{}     // closed when the session first exists
	reported    chan struct{}     // closed when End has reported the end of all grants
	alarm       *background.Alarm // wakes the owner
	calls       sync.WaitGroup

	mu            sync.Mutex    // guards what follows
	id            int64         // 0 until opened
	wire          *wire.Wire    // the newest connection
	attach        chan struct{} // closed while a server serves the session
	detach        chan struct{} // closed while none does
	isAttached    bool          // attach is closed, or about to be
	wasAttached   bool          // opened is closed, or about to be
	attachedSince time.Time     // when isAttached became true
	detachedSince time.Time     // when isAttached became false
	backSince     time.Time     // when the last outage ended that was longer than the session's patience
	overSince     time.Time     // when over was set
	outage        bool          // that the session is detached was reported
	server        string        // serves the session, or did last
	waiting       int           // requests in CallInTurn
	over          error         // why the session is over
	isDeleting    bool          // the owner is deleting nodes
	closing       bool          // Close was called

	needy time.Time // since when there are waiters or nodes to delete; of the owner's goroutine
}

// Open starts a session, which exists once the channel of Opened is closed.
func Open(config Config) (*Session, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	dials, stopDialing := context.WithCancel(context.Background())
	s := &Session{
		config:      config,
		events:      config.Events,
		lease:       deadline.New(config.Timeout),
		watches:     newWatches(),
		Nodes:       nodes.NewSet(),
		ctx:         ctx,
		cancel:      cancel,
		dials:       dials,
		stopDialing: stopDialing,
		opened:      make(chan struct{}),
		reported:    make(chan struct{}),
		alarm:       background.NewAlarm(),
		attach:      make(chan struct{}),
		detach:      make(chan struct{}),
	}
	servers := slices.Clone(config.Servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	s.dialer = &dialer{
		config:   &s.config,
		servers:  servers,
		connect:  s.connected,
		ctx:      dials,
		timeout:  config.Timeout,
		failures: make(map[string]error),
		tried:    make(map[string]time.Time),
	}
	// The client's goroutines call back before Connect has returned conn.
	conn, events, err := zk.Connect(servers, config.Timeout,
		zk.WithDialer(s.dialer.dial),
		zk.WithHostProvider(s.dialer),
		zk.WithEventCallback(s.event),
		zk.WithLogger(config.Logger),
		zk.WithLogInfo(false),
	)
	if err != nil {
		cancel(err)
		stopDialing()
		return nil, s.Fail("connect", "", err)
	}
	s.conn = conn
	// The channel of events is lossy, and the callback reports the same events. The
	// channel is closed when the client's last goroutine has ended.
	s.calls.Go(func() {
		for range events {
		}
	})
	return s, nil
}

// connected wraps each new connection. The client's goroutine calls it.
func (s *Session) connected(conn net.Conn, server string, greetBy time.Time) net.Conn {
	s.mu.Lock()
	last := s.wire
	s.mu.Unlock()
	// The client has waited for the goroutine that read from the last connection.
	w := wire.New(conn, greetBy, last, &s.dialer.blocking, wire.Hooks{
		Answered: s.lease.Packet,
		Proved:   s.lease.Proof,
		Login:    s.dialer.login(server, greetBy),
		Unset:    s.unset,
		Failed: func(err error) {
			s.dialer.miss(server, err)
			s.endIfRefused(server, err)
			if s.ctx.Err() != nil && s.dialer.isMute() {
				s.stopDialing() // another attempt would keep an abandoned session alive
			}
		},
		Greeted: func(h wire.Hello) error {
			if h.Replaced {
				s.End(ErrReplaced)
			}
			if h.SessionID == 0 {
				return nil // the client reports the expiry
			}
			if h.Timeout < time.Second/10 {
				return fmt.Errorf("not a ZooKeeper server: it granted a session timeout of %v", h.Timeout)
			}
			s.lease.Renegotiate(h.Timeout)
			s.dialer.greeted(h)
			s.mu.Lock()
			s.id, s.server = h.SessionID, server
			s.mu.Unlock()
			return nil
		},
	})
	s.mu.Lock()
	s.wire = w
	closing := s.closing
	s.mu.Unlock()
	if closing {
		w.Settle()
	}
	return w
}

// Ended returns why the session is over, or nil. The session's context may be cancelled
// slightly later, once all grants have ended.
func (s *Session) Ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Reported returns a channel that is closed once End has reported the end of all grants, slightly
// later than the session's context is cancelled.
func (s *Session) Reported() <-chan struct{} { return s.reported }

// End ends the session with that cause. It ends all grants before it does anything else. Only
// the first call has an effect.
func (s *Session) End(cause error) {
	s.mu.Lock()
	if s.over != nil {
		s.mu.Unlock()
		return
	}
	s.over, s.overSince = cause, time.Now()
	grants := s.Nodes.End(cause, errors.Is(cause, ErrExpired))
	s.mu.Unlock()

	_, reports := nodes.EndAll(grants, cause)
	s.cancel(cause)
	s.watches.dropAll()
	for _, report := range reports {
		report()
	}
	close(s.reported)
	// The ensemble must still be notified that a session was closed or abandoned.
	if !errors.Is(cause, sentinel.ErrClosed) && !errors.Is(cause, ErrAbandoned) {
		s.disconnect()
	}
}

// disconnect stops the session from opening connections, and ends the current one: the client does
// not close a connection on which a server reported that the session has expired.
func (s *Session) disconnect() {
	s.stopDialing()
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.Sever()
	}
}

// Close releases the session's resources in this process, after End. If it can, the client
// notifies the ensemble that the session is closed, which deletes the session's nodes. If no server has answered that, they
// exist until the session expires, and the error is sentinel.ErrUncertain.
//
// Close waits for the goroutines of the session, for at most CloseTimeout. If code that may block
// has not returned by then, it calls Stuck of the Events.
func (s *Session) Close() error {
	s.stopDialing()
	last := s.settle()
	s.conn.Close()
	s.disconnect()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.calls.Wait()
		s.dialer.blocking.Wait()
	}()
	timer := time.NewTimer(CloseTimeout)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
		s.events.Stuck()
	}
	if last == nil || last.SessionEnded() {
		return nil
	}
	return s.Fail("close the session", "", fmt.Errorf("%w: no server answered; its nodes exist until it expires, %v after the last answer",
		sentinel.ErrUncertain, s.Timeout()))
}

// settleTimeout is how long Close waits for the rest of a frame: Client.Close promises to return in about a second.
const settleTimeout = 250 * time.Millisecond

// settle waits until the client decodes no answer any more, and ends a connection on which that takes long: it is in the
// middle of a frame whose rest does not arrive. The session then ends at its timeout. It returns the last connection.
func (s *Session) settle() *wire.Wire {
	s.mu.Lock()
	s.closing = true
	w := s.wire
	s.mu.Unlock()
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

// CloseTimeout is how long a client that is being closed waits for code that may block: the
// Dial of its options, the Close of a connection, a logger.
const CloseTimeout = 2 * time.Second

// spawn runs f on a goroutine that the session waits for.
func (s *Session) spawn(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	s.calls.Go(f)
	return nil
}

// begin is spawn for a request on the caller's own goroutine, until finish is called.
func (s *Session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	s.calls.Add(1)
	s.waiting++
	return nil
}

func (s *Session) finish() {
	s.mu.Lock()
	s.waiting--
	s.mu.Unlock()
	s.calls.Done()
}

// Timeout returns T, as negotiated.
func (s *Session) Timeout() time.Duration { return s.lease.Timeout() }

// WakeWithin wakes the owner within d.
func (s *Session) WakeWithin(d time.Duration) { s.alarm.By(time.Now().Add(d)) }

// ID returns the session's ID, 0 until it exists.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Server returns the server that serves the session, or did last.
func (s *Session) Server() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// Fail returns the error of an operation of the session.
func (s *Session) Fail(op, path string, err error) error { return s.config.Wrap(op, path, err) }
