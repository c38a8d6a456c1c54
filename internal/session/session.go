// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/deadline"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A Session is one ZooKeeper session and the ZooKeeper client that runs it. The two begin and
// end together, because go-zookeeper opens another session by itself when one expires, and
// runs in it the requests that were queued for the first. It consists of its parts, each of which guards its own state.
type Session struct {
	*sender
	*deletions
	*heartbeats
}

// Open starts a session, which exists once the channel of Opened is closed.
func Open(config Config) (*Session, error) {
	lease := deadline.New(config.Timeout)
	send := &sender{
		lifetime: newLifetime(lease.Timeout), config: config, events: config.Events,
		lease: lease, alarm: background.NewAlarm(),
	}
	remove := &deletions{sender: send}
	s := &Session{send, remove, &heartbeats{sender: send, deletions: remove}}
	servers := slices.Clone(config.Servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	s.dialer = &dialer{
		config:   &send.config,
		servers:  servers,
		connect:  s.connected,
		ctx:      s.dials,
		over:     s.ctx,
		audible:  make(chan struct{}),
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
		zk.WithMaxBufferSize(config.MaxReply),
	)
	if err != nil {
		s.cancel(err)
		s.stopDialing()
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
	// The client has waited for the goroutine that read from the last connection.
	w := wire.New(conn, greetBy, s.link.state().wire, &s.dialer.blocking, wire.Hooks{
		Answered: s.lease.Packet,
		Proved:   s.lease.Proof,
		Login:    s.dialer.login(server, greetBy),
		Unset:    s.unset,
		MaxReply: s.config.MaxReply,
		Failed: func(err error) {
			s.dialer.miss(server, err)
			s.endIfRefused(server, err)
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
			s.link.greeted(h.SessionID, h.Password(), server)
			return nil
		},
	})
	s.link.use(w)
	return w
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
	// Without the answer to a handshake, no node was ever sent.
	if last == nil || s.ID() == 0 || last.SessionEnded() {
		return nil
	}
	return s.Fail("close the session", "", fmt.Errorf("%w: no server answered; its nodes exist until it expires, %v after the last answer",
		sentinel.ErrUncertain, s.Timeout()))
}

// CloseTimeout is how long a client that is being closed waits for code that may block: the
// Dial of its options, the Close of a connection, a logger.
const CloseTimeout = 2 * time.Second
