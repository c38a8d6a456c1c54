// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

var errSessionOver = errors.New("session is over")

// A dialer opens the connections of one session, and chooses the next server. It is both
// the Dialer and the HostProvider of the ZooKeeper client, because the two share the state
// that silences the client after the session. Once the session is over, the dialer opens no
// connection, so that the client cannot open another session and run this one's requests
// in it. It then reports each round as a full one; otherwise the client would spin.
type dialer struct {
	config   *Config
	servers  []string // host:port; names are resolved at each dial
	connect  func(conn net.Conn, server string, greetBy time.Time) net.Conn
	ctx      context.Context  // done when no more connections are to be made
	over     context.Context  // done when the session is over
	audible  chan struct{}    // closed when a server has answered another session of the client: see awaitAudible
	blocking background.Group // code that may block: dials, logins, closes of connections, parents of contexts

	mu       sync.Mutex           // guards what follows
	next     int                  // index of the server to try next
	misses   int                  // attempts since the last connection that lasted
	since    time.Time            // when the last handshake succeeded; zero from the next attempt on
	timeout  time.Duration        // T: asked for, then negotiated
	attached bool                 // the session exists
	failures map[string]error     // by server: why the last attempt failed
	mute     bool                 // a handshake was not answered, and none has been since
	hungUp   bool                 // a server ended the connection in place of an answer, likewise
	tried    map[string]time.Time // by server: when it was last dialled
	left     time.Time            // when the session last left a server that served it
	jitter   time.Duration        // drawn when left was set
	hello    []byte               // the last reply to a handshake, verbatim
	failNext bool                 // requests that were not sent are to be failed: see failQueued
	standIn  bool                 // the client is connected to wire.StandIn, and to no server
}

// Init is part of zk.HostProvider. The servers are known already, and shuffled.
func (d *dialer) Init([]string) error { return nil }

// Len is part of zk.HostProvider.
func (d *dialer) Len() int { return len(d.servers) }

// Next is part of zk.HostProvider. It never reports a full round while the
// session may live: the client would pause for a second.
func (d *dialer) Next() (server string, retryStart bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	server = d.servers[d.next]
	if !d.failNext {
		d.next = (d.next + 1) % len(d.servers)
	}
	return server, d.ctx.Err() != nil
}

// mayLeave returns how long the session must stay with its silent server, or 0 if it may
// leave. If the whole ensemble takes longer than its patience to answer, every client would leave
// server after server, and lose with each connection the answers in flight. So a session
// leaves a server at most once in T/2, and only for one that was not tried in T/2. A single
// server is left for a new connection to itself. If mayLeave returns 0, it records that
// the session leaves the server now.
func (d *dialer) mayLeave(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	stay := d.left.Add(d.timeout/2 + d.jitter).Sub(now)
	if tried, ok := d.tried[d.servers[d.next]]; ok && len(d.servers) > 1 {
		stay = max(stay, tried.Add(d.timeout/2).Sub(now))
	}
	if stay > 0 {
		return stay
	}
	d.left, d.jitter = now, rand.N(d.timeout/8)
	return 0
}

// Connected is part of zk.HostProvider: the handshake has succeeded.
func (d *dialer) Connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.standIn {
		return
	}
	d.since = time.Now()
	d.attached = true
	clear(d.failures)
	d.mute, d.hungUp, d.failNext = false, false, false
}

// dial is the client's Dialer.
func (d *dialer) dial(network, server string, _ time.Duration) (net.Conn, error) {
	d.mu.Lock()
	d.standIn = d.failNext && d.hello != nil
	if d.standIn {
		d.failNext = false
		hello := d.hello
		d.mu.Unlock()
		return d.openStandIn(hello), nil
	}
	d.mu.Unlock()
	d.awaitAudible()
	d.mu.Lock()
	d.failNext = false
	d.tried[server] = time.Now()
	// A server that completes the handshake and disconnects, repeatedly, counts as
	// unreachable.
	if !d.since.IsZero() && time.Since(d.since) >= d.timeout/24 {
		d.misses = 0
	}
	d.since = time.Time{}
	limit, pause := d.limits()
	d.misses++
	d.mu.Unlock()

	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.ctx.Done():
		}
	}
	if d.ctx.Err() != nil {
		return nil, errSessionOver
	}
	greetBy := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(d.ctx, greetBy)
	defer cancel()
	open := func() (net.Conn, error) { return d.open(ctx, network, server) }
	// The connection is no longer needed, nor is the error of Close.
	conn, err := within(ctx, &d.blocking, "the Dial", open, func(conn net.Conn) { _ = conn.Close() })
	if err != nil {
		d.miss(server, err)
		return nil, err
	}
	return d.connect(conn, server, greetBy), nil
}

// firstHandshake bounds a dial and handshake before the session exists, however long its
// timeout: a server that has been silent for this long is not going to answer.
const firstHandshake = 3 * time.Second

// limits returns how long dial and handshake may take, and the pause before them. Before
// the session exists nothing can be lost, and a slow handshake may be the only one that
// succeeds. After that, an unanswered attempt must leave time for others. The caller
// holds mu.
func (d *dialer) limits() (limit, pause time.Duration) {
	limit = min(d.timeout/3, firstHandshake)
	if d.attached {
		limit = d.timeout / 12
	}
	if rounds := d.misses / len(d.servers); rounds > 0 {
		longest := min(time.Second, d.timeout/24)
		if d.areRefused() {
			longest = d.timeout / 4 // each attempt can leave a session that lasts for T
		}
		pause = min(10*time.Millisecond<<min(rounds-1, 10), longest)
		pause = pause/2 + rand.N(pause/2+1)
	}
	return limit, pause
}

func (d *dialer) open(ctx context.Context, network, server string) (net.Conn, error) {
	conn, err := d.config.Dial(ctx, network, server)
	if err != nil || d.config.TLS == nil {
		return conn, err
	}
	config := d.config.TLS
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", errors.Join(err, conn.Close()))
	}
	return secure, nil
}

// greeted records the server's reply to the handshake.
func (d *dialer) greeted(h wire.Hello) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timeout, d.hello = h.Timeout, h.Frame
}

// miss records why an attempt failed.
func (d *dialer) miss(server string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures[server] = err
	d.mute = d.mute || errors.Is(err, wire.ErrUnanswered)
	d.hungUp = d.hungUp || errors.Is(err, wire.ErrHungUp)
}

// awaitAudible blocks while another attempt could keep an abandoned session alive: if it is mute, until a server has answered another
// session of the client. Then the session can be closed.
func (d *dialer) awaitAudible() {
	if d.over.Err() == nil || !d.isMute() {
		return
	}
	select {
	case <-d.audible:
	case <-d.ctx.Done():
	}
}

// isMute reports whether a handshake was not answered, and none has been since: the
// servers may receive the session's packets although it receives none of theirs.
//
// A server that hangs up shows that its own packets arrive, and that the ensemble has no quorum, or had none a moment ago: a hung
// server, which is mute as well, may be the reason. When a leader serves again it gives each session a whole T, so the nodes of one
// that was abandoned meanwhile would block other clients for T, where its client could have continued it.
func (d *dialer) isMute() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mute && !d.hungUp
}

// why returns an error that names each server that could not be reached, with the reason.
func (d *dialer) why() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.failures) == 0 {
		return fmt.Errorf("no answer from %s", strings.Join(d.servers, ", "))
	}
	errs := make([]error, 0, len(d.failures))
	for _, server := range slices.Sorted(maps.Keys(d.failures)) {
		errs = append(errs, fmt.Errorf("%s: %w", server, d.failures[server]))
	}
	return errors.Join(errs...)
}

// failQueued makes the ZooKeeper client fail the requests in its queue, which entered it
// as the connection ended and were not sent.
//
// go-zookeeper v1.0.4 fails them only after a full round of the servers, and then pauses
// for a second, in which a session with a short timeout is lost. So the next connection
// goes to a goroutine that repeats the last handshake of a server, answers each request
// with an error that no server sends, zk.ErrNothing, and closes the connection as soon as
// no more requests come.
func (d *dialer) failQueued() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failNext = true
}

// isStandIn reports whether the client is connected to wire.StandIn.
func (d *dialer) isStandIn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.standIn
}

// openStandIn returns a connection to wire.StandIn.
func (d *dialer) openStandIn(hello []byte) net.Conn {
	client, server := net.Pipe()
	quiet := max(d.negotiated()/480, time.Millisecond)
	d.blocking.Run(func() { wire.StandIn(server, hello, quiet) })
	return client
}

// negotiated returns T as granted by the last server, or as asked for before that.
func (d *dialer) negotiated() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timeout
}
