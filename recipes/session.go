// SPDX-License-Identifier: Apache-2.0

package recipes

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

	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
	"github.com/lockkeeper/lockkeeper/recipes/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes/internal/wire"
)

// A session is one ZooKeeper session and the client connection that it lives in:
// the two begin and end together, because go-zookeeper opens another session by
// itself when one expires, and runs in it what was queued for the first.
type session struct {
	settings *settings
	report   *reporter
	conn     *zk.Conn
	dialer   *dialer
	lease    *lease.Lease
	watches  watches
	lists    sharing[struct{}, *listing]
	parents  sharing[struct{}, parent]
	finds    sharing[*place, map[string]member]

	turns       turn // one for each ordinary request that is on its way
	holderTurns turn // likewise, for those of holders alone

	ctx    context.Context // done when the session is over, with the reason
	cancel context.CancelCauseFunc
	dials  context.Context // done when no more connections are to be made
	hangUp context.CancelFunc
	opened chan struct{}     // closed when the session first exists
	alarm  *background.Alarm // wakes the owner
	calls  sync.WaitGroup

	mu            sync.Mutex          // guards what follows, and what says so in place
	id            int64               // 0 until opened
	wire          *wire.Wire          // the newest connection
	attach        chan struct{}       // closed while a server serves the session
	detach        chan struct{}       // closed while none does
	isAttached    bool                // attach is closed, or about to be
	wasAttached   bool                // opened is closed, or about to be
	attachedSince time.Time           // when isAttached became true
	detachedSince time.Time           // when isAttached became false
	overSince     time.Time           // when over was set
	outage        bool                // that it is detached was logged
	server        string              // that serves it, or did last
	through       int                 // requests that are seen through
	over          error               // why it is over
	claims        map[*Claim]struct{} // held in this session
	ledger        ledger
	sweeping      bool // nodes are being deleted by the owner
	beat          beatState
}

// openSession starts a session. It exists once opened is closed.
func openSession(settings *settings, report *reporter) (*session, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	dials, hangUp := context.WithCancel(context.Background())
	s := &session{
		settings: settings,
		report:   report,
		lease:    lease.New(settings.sessionTimeout),
		watches:  watches{set: make(map[watchKey]*watch)},
		ledger:   newLedger(),
		ctx:      ctx,
		cancel:   cancel,
		dials:    dials,
		hangUp:   hangUp,
		opened:   make(chan struct{}),
		alarm:    background.NewAlarm(),
		attach:   make(chan struct{}),
		detach:   make(chan struct{}),
		claims:   make(map[*Claim]struct{}),

		turns:       make(turn, maxInFlight-forHolders),
		holderTurns: make(turn, forHolders),
	}
	servers := slices.Clone(settings.servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	s.dialer = &dialer{
		settings: settings,
		servers:  servers,
		connect:  s.connected,
		ctx:      dials,
		timeout:  settings.sessionTimeout,
		failures: make(map[string]error),
		tried:    make(map[string]time.Time),
	}
	// The client's goroutines call back before Connect has returned conn.
	conn, events, err := zk.Connect(servers, settings.sessionTimeout,
		zk.WithDialer(s.dialer.dial),
		zk.WithHostProvider(s.dialer),
		zk.WithEventCallback(s.event),
		zk.WithLogger(clientLogger{report}),
		zk.WithLogInfo(false),
	)
	if err != nil {
		cancel(err)
		hangUp()
		return nil, &Error{Op: "connect", Err: err}
	}
	s.conn = conn
	// The channel of events is lossy, and the callback tells all that it would.
	// It is closed when the client's last goroutine has gone.
	s.calls.Go(func() {
		for range events {
		}
	})
	return s, nil
}

// connected wraps each new connection. It is called by the client's goroutine.
func (s *session) connected(conn net.Conn, server string, greetBy time.Time) net.Conn {
	s.mu.Lock()
	last := s.wire
	s.mu.Unlock()
	// The client has waited for the goroutine that read from the last one.
	w := wire.New(conn, greetBy, last, s.watches.any(), &s.dialer.blocking, wire.Hooks{
		Answered: s.lease.Packet,
		Proved:   s.lease.Proof,
		Failed: func(err error) {
			s.dialer.miss(server, err)
			if s.ctx.Err() != nil && s.dialer.isMute() {
				s.hangUp() // to be heard would keep alive what was given up
			}
		},
		Greeted: func(h wire.Hello) error {
			if h.SessionID == 0 {
				return nil // the client tells of the expiry
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
	s.mu.Unlock()
	return w
}

// event is the client's callback. It runs on the goroutines that serve the
// connection, so it changes state and does nothing that could wait.
func (s *session) event(ev zk.Event) {
	if ev.Type != zk.EventSession {
		s.watches.event(ev)
		if ev.Type == zk.EventNodeDeleted || ev.Type == zk.EventNodeDataChanged {
			s.mu.Lock()
			p := s.ledger.byPath[ev.Path]
			s.mu.Unlock()
			if p != nil {
				s.lost(p)
			}
		}
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		if s.dialer.isReturning() {
			return // no server: see giveBack
		}
		s.setAttached(true)
	case zk.StateDisconnected:
		s.setAttached(false)
	case zk.StateExpired:
		s.end(errExpired)
		s.quit() // one that was given up is still dialling
	}
}

func (s *session) setAttached(attached bool) {
	s.mu.Lock()
	if s.isAttached == attached {
		s.mu.Unlock()
		return
	}
	s.isAttached = attached
	s.beat.next = time.Time{} // due at once
	first := attached && !s.wasAttached
	turn := s.detach
	if attached {
		turn = s.attach
		s.wasAttached = true
		s.detach = make(chan struct{})
		s.attachedSince = time.Now()
	} else {
		s.attach = make(chan struct{})
		s.detachedSince = time.Now()
	}
	server, id, over := s.server, s.id, s.over
	outage, lasted := attached && s.outage && over == nil, s.attachedSince.Sub(s.detachedSince)
	s.outage = false
	s.mu.Unlock()

	close(turn)
	switch {
	case first:
		close(s.opened)
	case attached:
		s.report.attached(id, server)
	default:
		s.report.detached(id, server)
	}
	if outage {
		s.report.outageEnded(server, lasted)
	}
	if !first && over == nil {
		s.report.states.send(s.state())
	}
	s.alarm.Ring()
}

// attached waits until a server serves the session.
func (s *session) attached(ctx context.Context) error {
	s.mu.Lock()
	attach, over := s.attach, s.over
	s.mu.Unlock()
	if over != nil {
		return over
	}
	select {
	case <-attach:
		return nil
	default:
	}
	select {
	case <-attach:
		return nil
	case <-s.ctx.Done():
		return s.ended()
	case <-ctx.Done():
		return fmt.Errorf("%w (not connected: %w)", ctx.Err(), s.dialer.why())
	}
}

// isServed reports whether a server serves the session at this moment.
func (s *session) isServed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isAttached
}

// ended returns why the session is over, or nil. Its context may be cancelled somewhat
// later, once its claims have been notified.
func (s *session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// end makes the session be over. Claims are told before anything else happens.
// Only the first call has an effect.
func (s *session) end(cause error) {
	s.mu.Lock()
	if s.over != nil {
		s.mu.Unlock()
		return
	}
	s.over, s.overSince = cause, time.Now()
	claims := s.takeClaims()
	s.mu.Unlock()

	end := (*Claim).endElsewhere
	if errors.Is(cause, ErrClosed) {
		// The caller of Close waits, and the nodes go when the session is closed: the
		// contexts are cancelled before.
		end = (*Claim).end
	}
	ended := endAll(claims, cause, end)
	s.cancel(cause)
	s.watches.dropAll()
	for _, c := range ended {
		s.report.lost(c, cause)
	}
	// A session that is closed, or given up, is yet to be told so.
	if !errors.Is(cause, ErrClosed) && !errors.Is(cause, errGivenUp) {
		s.quit()
	}
}

// quit has the session make no more connections, and ends the one it has: the
// client does not close one over which it was told that the session has expired.
func (s *session) quit() {
	s.hangUp()
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.Sever()
	}
}

// takeClaims returns the claims and forgets them. The caller holds mu.
func (s *session) takeClaims() []*Claim {
	claims := make([]*Claim, 0, len(s.claims))
	for c := range s.claims {
		claims = append(claims, c)
	}
	clear(s.claims)
	return claims
}

// bury ends what the session leaves in this process, after end. The client tells
// the ensemble that the session is closed, where it can, and its nodes go.
//
// It waits for everything but the Dial and the Close of a connection that do not return:
// those it waits for no longer than stragglers, and says so.
func (s *session) bury() {
	s.hangUp()
	s.conn.Close()
	s.quit()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.calls.Wait()
		s.dialer.blocking.Wait()
	}()
	timer := time.NewTimer(stragglers)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
		s.report.stuck()
	}
}

// stragglers is how long a client that is closed waits for code that may block: the
// Dial of its options, the Close of a connection, a logger.
const stragglers = 2 * time.Second

// spawn runs f on a goroutine that the session waits for.
func (s *session) spawn(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	s.calls.Go(f)
	return nil
}

// begin is spawn for a request on the caller's own goroutine, until finish is called.
func (s *session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	s.calls.Add(1)
	s.through++
	return nil
}

func (s *session) finish() {
	s.mu.Lock()
	s.through--
	s.mu.Unlock()
	s.calls.Done()
}

// authenticate presents the credentials. The client repeats them by itself to
// each further server once the first has taken them.
func (s *session) authenticate(ctx context.Context) error {
	for _, auth := range s.settings.auth {
		for {
			_, err := call(ctx, s, func(conn *zk.Conn) (struct{}, error) {
				return struct{}{}, conn.AddAuth(auth.Scheme, auth.Data)
			})
			if err == nil {
				break
			}
			if outcomeOf(err) != unknown || ctx.Err() != nil || s.ended() != nil {
				return &Error{Op: "authenticate", Path: auth.Scheme, Err: err}
			}
		}
	}
	return nil
}

// timeout is T, as negotiated.
func (s *session) timeout() time.Duration { return s.lease.Timeout() }

// look has the owner look within d.
func (s *session) look(d time.Duration) { s.alarm.By(time.Now().Add(d)) }

func (s *session) sessionID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// servedBy is the server that serves the session, or did last.
func (s *session) servedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}
