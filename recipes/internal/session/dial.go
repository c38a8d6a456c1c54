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

	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
	"github.com/lockkeeper/lockkeeper/recipes/internal/wire"
)

var errSessionOver = errors.New("session is over")

// A dialer makes the connections of one session, and says which server is next.
// It is the ZooKeeper client's Dialer and HostProvider in one, because the two
// share what keeps a dead client quiet: once the session is over no connection
// is made, so that the client cannot open another session and run in it what
// was meant for this one; and each round is reported as a full one, for else the
// client would spin.
type dialer struct {
	config   *Config
	servers  []string // host:port; names are resolved at each dial
	connect  func(conn net.Conn, server string, greetBy time.Time) net.Conn
	ctx      context.Context   // done when no more connections are to be made
	blocking background.Strays // what runs code that may block: dials, closes of connections, parents of contexts

	mu       sync.Mutex           // guards what follows
	next     int                  // index of the server to try next
	misses   int                  // attempts since a connection has lasted
	since    time.Time            // when the last handshake has succeeded, zero once the next attempt is made
	timeout  time.Duration        // T: asked for, then negotiated
	attached bool                 // the session exists
	failures map[string]error     // by server: why the last attempt came to nothing
	mute     bool                 // a handshake was not answered since one last was
	tried    map[string]time.Time // by server: when it was last dialled
	left     time.Time            // when a server was last left that served the session
	jitter   time.Duration        // drawn when left was set
	hello    []byte               // the last reply to a handshake, as it came
	giving   bool                 // requests that were not sent are to be given back
	returns  bool                 // the client is connected to what gives them back, and to no server
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
	if !d.giving {
		d.next = (d.next + 1) % len(d.servers)
	}
	return server, d.ctx.Err() != nil
}

// mayLeave returns for how long the session has to stay with its server although that is
// silent, or 0. Of an ensemble that as a whole takes longer than T/8 to answer, every
// client would leave server after server, and lose with each connection the answers that
// were on their way. So a server is left at most once in T/2, and for one that was not
// tried in T/2; one that has no other is left for a new connection to itself. If the
// result is 0, it is taken that the server is left now.
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
	if d.returns {
		return
	}
	d.since = time.Now()
	d.attached = true
	clear(d.failures)
	d.mute, d.giving = false, false
}

// dial is the client's Dialer.
func (d *dialer) dial(network, server string, _ time.Duration) (net.Conn, error) {
	d.mu.Lock()
	d.returns = d.giving && d.hello != nil
	if d.returns {
		d.giving = false
		hello := d.hello
		d.mu.Unlock()
		return d.returning(hello), nil
	}
	d.giving = false
	d.tried[server] = time.Now()
	// A server that shakes hands and hangs up, over and over, is no better than
	// one that cannot be reached.
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
	conn, err := d.openWithin(ctx, network, server)
	if err != nil {
		d.miss(server, err)
		return nil, err
	}
	return d.connect(conn, server, greetBy), nil
}

// openWithin is open for a Dial, of the caller of Connect, that may take no notice of ctx.
func (d *dialer) openWithin(ctx context.Context, network, server string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	late := make(chan struct{})
	d.blocking.Run(func() {
		conn, err := d.open(ctx, network, server)
		select {
		case results <- result{conn, err}:
		case <-late:
			if err == nil {
				// Nobody wants it any more, nor what it has to say.
				_ = conn.Close()
			}
		}
	})
	select {
	case r := <-results:
		return r.conn, r.err
	case <-ctx.Done():
	}
	// What heeds ctx is about to return, with more to say than ctx has.
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case r := <-results:
		return r.conn, r.err
	case <-timer.C:
		close(late)
		return nil, fmt.Errorf("the Dial of the options takes no notice of its context: %w", ctx.Err())
	}
}

// firstHandshake bounds a dial and handshake before there is a session, however long its
// timeout is to be: a server that says nothing for so long is not going to.
const firstHandshake = 3 * time.Second

// limits is how long dial and handshake may take, and the pause before. Until a
// session exists nothing is at stake, and a slow first handshake may be the only
// one to be had; after that an unanswered attempt must leave time for others.
// The caller holds mu.
func (d *dialer) limits() (limit, pause time.Duration) {
	limit = min(d.timeout/3, firstHandshake)
	if d.attached {
		limit = d.timeout / 12
	}
	if rounds := d.misses / len(d.servers); rounds > 0 {
		pause = min(10*time.Millisecond<<min(rounds-1, 10), time.Second, d.timeout/24)
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

// greeted takes over what a server said in the handshake.
func (d *dialer) greeted(h wire.Hello) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timeout, d.hello = h.Timeout, h.Frame
}

// miss keeps why an attempt came to nothing.
func (d *dialer) miss(server string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures[server] = err
	d.mute = d.mute || errors.Is(err, wire.ErrUnanswered)
}

// isMute says whether a handshake was not answered since one last was: servers
// may hear the session, and it does not hear them.
func (d *dialer) isMute() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mute
}

// why names each server that could not be reached, with the reason.
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

// giveBack has the ZooKeeper client fail the requests that stand in its queue, which
// came there as its connection ended and were not sent.
//
// go-zookeeper v1.0.4 gives them back after a full round of the servers only, and then
// pauses for a second, in which a session with a short timeout is lost. So the next
// connection is made to a goroutine that repeats the last handshake of a server, answers
// each request with an error that no server sends, zk.ErrNothing, and ends the connection
// as soon as no more come.
func (d *dialer) giveBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.giving = true
}

// isReturning reports whether the client is connected to what gives requests back.
func (d *dialer) isReturning() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.returns
}

// returning is such a connection.
func (d *dialer) returning(hello []byte) net.Conn {
	client, server := net.Pipe()
	quiet := max(d.negotiated()/480, time.Millisecond)
	d.blocking.Run(func() { wire.GiveBack(server, hello, quiet) })
	return client
}

// negotiated is T, as the dialer knows it.
func (d *dialer) negotiated() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timeout
}
