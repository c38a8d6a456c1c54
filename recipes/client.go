// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Client is a connection to one ensemble, over as many sessions as it takes:
// when one is over, the next is opened. Claims and places in line belong to one
// session and die with it.
//
// One Client serves a whole process; all its methods are safe for concurrent use.
type Client struct {
	settings *settings
	report   *reporter
	nonces   *nonces
	closing  context.Context // done when Close is called
	close    context.CancelFunc
	stopped  chan struct{} // closed when run has returned
	reported sync.Once     // guards closing report

	mu      sync.Mutex    // guards what follows
	current *session      // the newest session that was opened
	trying  *session      // the one that is being opened
	changed chan struct{} // closed, and replaced, when current or refusal is set
	refusal error         // why there will be no session
}

// Connect opens a session with the ensemble of which servers are members:
// host:port each, the port defaulting to 2181. opts may be nil.
//
// It returns when the session exists, or, once ctx is done, with an error that
// names the servers it could not reach and why. Nonsense in the arguments, and
// credentials that a server refuses, are errors at once. On an error nothing is
// left behind. The client's life is not bound to ctx: call Close.
//
// A *zk.Conn that was made elsewhere cannot be adopted: what a Client promises
// when a session ends depends on how connections are made.
func Connect(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	if ctx == nil {
		return nil, &Error{Op: "connect", Err: errNilContext}
	}
	settings, err := opts.check(servers)
	if err != nil {
		return nil, &Error{Op: "connect", Err: err}
	}
	closing, cancel := context.WithCancel(context.Background())
	c := &Client{
		settings: settings,
		report:   newReporter(settings),
		nonces:   newNonces(),
		closing:  closing,
		close:    cancel,
		stopped:  make(chan struct{}),
		changed:  make(chan struct{}),
	}
	go c.run()
	if _, err := c.session(ctx); err != nil {
		c.Close()
		return nil, &Error{Op: "connect", Err: withCtx(ctx, err)}
	}
	return c, nil
}

// run opens one session after the other until the client is closed.
func (c *Client) run() {
	defer close(c.stopped)
	var graves sync.WaitGroup
	defer graves.Wait()
	for c.closing.Err() == nil {
		s, err := openSession(c.settings, c.report)
		if err == nil {
			err = c.serve(s)
			c.mu.Lock()
			changed := c.changed
			c.mu.Unlock()
			// The next session does not wait until this one is buried.
			graves.Go(func() {
				c.linger(s, changed)
				s.bury()
			})
		}
		if err != nil {
			c.publish(nil, err)
			return
		}
	}
}

// serve lives through one session. Its error is that there shall be no other.
func (c *Client) serve(s *session) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(c.closing, func() {
		defer close(ended)
		s.end(ErrClosed)
	})
	defer func() {
		if !stop() {
			<-ended // what it has to tell is told before the client has closed
		}
	}()
	c.mu.Lock()
	c.trying = s
	c.mu.Unlock()

	select {
	case <-s.opened:
	case <-s.ctx.Done():
		return nil
	}
	// The bound is for servers that go away and come back without the session: no
	// keeper is there yet to give it up.
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.timeout())
	err := s.authenticate(ctx)
	cancel()
	if err != nil {
		refused := outcomeOf(err) == refused && !errors.Is(err, zk.ErrSessionExpired)
		s.end(err)
		if refused {
			return err
		}
		return nil
	}
	c.report.opened(s.sessionID(), s.servedBy(), c.settings.sessionTimeout, s.timeout())
	c.publish(s, nil)
	s.keep()
	<-s.ctx.Done()
	c.report.ended(s.sessionID(), context.Cause(s.ctx))
	return nil
}

// linger waits with the burial of a session that was given up. If the ensemble
// comes back and still knows it, it can then be closed, and its nodes go at once
// rather than by a count of T that has begun anew. Once there has been another
// session for T, a server would have expired it.
func (c *Client) linger(s *session, changed <-chan struct{}) {
	if !errors.Is(context.Cause(s.ctx), errGivenUp) || s.dialer.isMute() {
		return
	}
	s.mu.Lock()
	attach := s.attach
	s.mu.Unlock()
	var late <-chan time.Time
	for {
		select {
		case <-attach:
			return
		case <-s.dials.Done():
			return
		case <-c.closing.Done():
			return
		case <-changed:
			changed = nil
			late = time.After(s.timeout())
		case <-late:
			return
		}
	}
}

func (c *Client) publish(s *session, refusal error) {
	c.mu.Lock()
	if s != nil {
		c.current = s
	}
	c.refusal = refusal
	changed := c.changed
	c.changed = make(chan struct{})
	c.mu.Unlock()
	close(changed)
}

// session returns the session, waiting for one until ctx is done.
func (c *Client) session(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, changed, refusal := c.current, c.changed, c.refusal
		c.mu.Unlock()
		switch {
		case c.closing.Err() != nil:
			return nil, ErrClosed
		case refusal != nil:
			return nil, refusal
		case s != nil && s.ctx.Err() == nil:
			return s, nil
		}
		select {
		case <-changed:
		case <-c.closing.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), c.why())
		}
	}
}

// why says what keeps the client from having a session.
func (c *Client) why() error {
	c.mu.Lock()
	s := c.trying
	c.mu.Unlock()
	if s == nil {
		return errors.New("no session yet")
	}
	return s.dialer.why()
}

// Close ends the client: its claims first, whose contexts are cancelled with the
// cause ErrClosed, then the session, so that its nodes go at once if a server can
// be reached, and within the session timeout otherwise. It returns when every
// goroutine of the client has ended, in about a second at most, and the trace was
// told of every loss and its last function has returned. Calling it again waits for
// the same end. It does not wait for work that runs under a claim: release the claim
// first. A release that it overtakes while no server can be reached is ErrUncertain,
// and one that begins later is ErrLost.
//
// A function of the trace must not call it.
func (c *Client) Close() {
	c.close()
	<-c.stopped
	c.reported.Do(c.report.close)
}

// newest is the newest session, which may be over.
func (c *Client) newest() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Conn returns the ZooKeeper client's connection of the current session, for the
// caller's own requests. It is of no use once that session is over: ask again.
// Do not close it. The client's namespace does not apply. Nodes that it creates
// as ephemeral die with the session, like those of the claims.
func (c *Client) Conn() *zk.Conn { return c.newest().conn }

// SessionTimeout is the session timeout T that the servers granted, for the
// newest session.
func (c *Client) SessionTimeout() time.Duration { return c.newest().timeout() }

// SessionID is the id of the newest session, as the servers' logs have it.
func (c *Client) SessionID() int64 { return c.newest().sessionID() }

// Ledger is how many nodes of this client may exist in its session: those that
// are waited with or held, those whose creation was not answered yet, and those
// that are still to be deleted. It is 0 for a client that holds nothing and owes
// nothing.
func (c *Client) Ledger() int {
	s := c.newest()
	if s.ctx.Err() != nil {
		return 0 // its nodes die with it
	}
	return s.ledger.size()
}

// DroppedEvents is how many events the trace and the log have missed because
// they were too slow.
func (c *Client) DroppedEvents() int64 { return c.report.dropped.Load() }
