// SPDX-License-Identifier: Apache-2.0

// Package client is the engine of a client: it opens one session after the other, and finds the nodes of requests that were not
// answered.
package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/report"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// A Client is the engine of a recipes.Client: it opens one session after the other. All its methods are
// safe for concurrent use.
type Client struct {
	config   *Config
	report   *report.Reporter
	nonces   *nonces
	closing  context.Context // done when Close is called
	close    context.CancelFunc
	stopped  chan struct{} // closed when run has returned
	unclosed error         // why the session of which Close was the end may still exist; written before stopped is closed
	reported sync.Once     // guards closing report
	slots    slots

	mu       sync.Mutex    // guards what follows
	current  *Session      // the newest session that was opened
	previous *Session      // the one before it
	renewed  time.Time     // when current was opened
	opening  *Session      // the one that is being opened
	changed  chan struct{} // closed, and replaced, when current or refusal is set
	refusal  error         // why the client opens no further session

	endMu   sync.Mutex // guards what follows
	ends    []func()   // of AtClose
	isEnded bool       // ends are called by AtClose itself
}

// Connect returns a client that opens its first session. After an error there is none.
func Connect(ctx context.Context, settings *Config) (*Client, error) {
	closing, cancel := context.WithCancel(context.Background())
	c := &Client{
		config:  settings,
		report:  report.New(settings.Trace, settings.Logger),
		nonces:  newNonces(),
		closing: closing,
		close:   cancel,
		stopped: make(chan struct{}),
		changed: make(chan struct{}),
	}
	go c.run()
	if _, err := c.Session(ctx); err != nil {
		return nil, errors.Join(c.Fail("connect", "", sentinel.WithCtx(ctx, err)), c.Close())
	}
	return c, nil
}

// run opens one session after the other until the client is closed.
func (c *Client) run() {
	defer close(c.stopped)
	var closing sync.WaitGroup
	defer closing.Wait()
	for c.closing.Err() == nil {
		s, err := openSession(c, c.Newest() == nil)
		if err == nil {
			err = c.serve(s)
			c.mu.Lock()
			changed := c.changed
			c.mu.Unlock()
			// The next session does not wait until this one is closed.
			closing.Go(func() {
				c.delayClose(s, changed)
				if err := s.Close(); errors.Is(s.Ended(), sentinel.ErrClosed) {
					c.unclosed = err
				}
			})
		}
		if err != nil {
			c.publish(nil, err)
			return
		}
	}
}

// serve runs one session to its end. It returns an error if the client must not open
// another one.
func (c *Client) serve(s *Session) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(c.closing, func() {
		defer close(ended)
		s.End(sentinel.ErrClosed)
	})
	defer func() {
		if !stop() {
			<-ended // End has returned before the client is closed
		}
	}()
	c.mu.Lock()
	c.opening = s
	c.mu.Unlock()

	if !c.awaitOpened(s) {
		return refusalOf(s.Ended())
	}
	// The bound is for servers that disappear and return without the session: no
	// owner runs yet that would abandon it.
	ctx, cancel := context.WithTimeout(s.Context(), 2*s.Timeout())
	err := s.Authenticate(ctx)
	cancel()
	if err != nil {
		s.End(err)
		return refusalOf(err)
	}
	if c.config.Guard != nil {
		defer c.config.Guard.Forget(s.ID())
		if err := c.protect(s); err != nil {
			if ended := s.Ended(); ended != nil {
				return refusalOf(ended)
			}
			s.End(sentinel.ErrClosed) // the session is closed, and not left to expire
			return err
		}
	}
	c.report.Opened(s.ID(), s.Server(), c.config.SessionTimeout, s.Timeout())
	c.publish(s, nil)
	c.report.Changed(s.Status())
	s.Run()
	<-s.Reported() // a trace sees the losses before the end of their session, and that before the next one
	c.report.Ended(s.ID(), s.Ended())
	c.report.Changed(s.Status())
	return nil
}

// refusalOf returns err if a server has refused the credentials of a session that ended with it, nil otherwise.
func refusalOf(err error) error {
	if session.OutcomeOf(err) == session.Refused && !errors.Is(err, sentinel.ErrSessionExpired) && !errors.Is(err, zk.ErrSessionExpired) {
		return err
	}
	return nil
}

// outageInterval is the time between two reports of the same outage in the log.
const outageInterval = 30 * time.Second

// awaitOpened waits for the session, and reports whether it was opened. It reports an
// outage if that takes long, as for a session that is detached, and repeats that in the log: a
// program that waits for its first server has nothing else to show.
func (c *Client) awaitOpened(s *Session) bool {
	began := time.Now()
	timer := time.NewTimer(c.config.SessionTimeout / 4)
	defer timer.Stop()
	outage := false
	for {
		select {
		case <-s.Opened():
			if outage {
				c.report.OutageEnded(s.Server(), time.Since(began))
			}
			return true
		case <-s.Context().Done():
			return false
		case <-timer.C:
			if outage {
				c.report.OutageLasts(time.Since(began), s.Why())
			} else {
				outage = true
				c.report.Outage(time.Since(began), s.Why())
			}
			timer.Reset(outageInterval)
		}
	}
}

// delayClose delays the closing of an abandoned session. If the ensemble comes back and
// still knows the session, the client can close it. Its nodes are then deleted
// immediately, and not after a count of T that began anew. Once another session has been
// served for T, a server would have expired the abandoned one. An interruption of that begins the count anew, too.
//
// If no handshake of the abandoned session was answered, its servers may hear it although it does not hear them. It then dials only
// once there is another session, as each attempt could keep it alive.
//
// However early the ensemble is back, the work of holders whose claims ended gets T/4 to stop, as in a session that continues. Other
// nodes of the session wait for that, for T/4 at most: they can only be deleted together.
func (c *Client) delayClose(s *Session, changed <-chan struct{}) {
	if !errors.Is(s.Ended(), session.ErrAbandoned) {
		return
	}
	var late <-chan time.Time
	for {
		var kept <-chan time.Time
		attached := s.Attached()
		if left := time.Until(s.Nodes.KeptUntil()); left > 0 {
			attached, kept = nil, time.After(min(left, s.Timeout()/24)) // a holder may report earlier that its work has stopped
		}
		select {
		case <-attached:
			return
		case <-kept:
		case <-s.DialingStopped():
			return
		case <-c.closing.Done():
			return
		case <-changed:
			changed = nil
			s.Audible()
			late = time.After(s.Timeout())
		case <-late:
			if c.Newest().IsServed() {
				return
			}
			late = time.After(s.Timeout())
		}
	}
}

func (c *Client) publish(s *Session, refusal error) {
	c.mu.Lock()
	if s != nil {
		c.previous, c.current, c.renewed = c.current, s, time.Now()
	}
	c.refusal = refusal
	changed := c.changed
	c.changed = make(chan struct{})
	c.mu.Unlock()
	close(changed)
}

// Session returns the current session. It waits for one until ctx is done.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	for {
		c.mu.Lock()
		s, changed, refusal := c.current, c.changed, c.refusal
		c.mu.Unlock()
		switch {
		case c.closing.Err() != nil:
			return nil, sentinel.ErrClosed
		case refusal != nil:
			return nil, refusal
		case s != nil && s.Ended() == nil:
			return s, nil
		}
		select {
		case <-changed:
		case <-c.closing.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), c.Why())
		}
	}
}

// Why returns what keeps the client from having a session.
func (c *Client) Why() error {
	c.mu.Lock()
	s := c.opening
	c.mu.Unlock()
	if s == nil {
		return errors.New("no session yet")
	}
	return s.Why()
}

// Close ends the client: its sessions, and what its owners registered by AtClose. An error says that the last session may still
// exist.
func (c *Client) Close() error {
	c.close()
	c.endMu.Lock()
	c.isEnded = true
	ends := c.ends
	c.endMu.Unlock()
	for _, end := range ends {
		end()
	}
	<-c.stopped
	c.reported.Do(c.report.Close)
	return c.unclosed
}

// AtClose makes Close call end, which waits for goroutines that end with Closing.
func (c *Client) AtClose(end func()) {
	c.endMu.Lock()
	c.ends = append(c.ends, end)
	isEnded := c.isEnded
	c.endMu.Unlock()
	if isEnded {
		end()
	}
}

// Closing returns a context that is done when Close is called.
func (c *Client) Closing() context.Context { return c.closing }

// Fail returns the error of an operation on path in the form that the library returns.
func (c *Client) Fail(op, path string, err error) error { return c.config.Fail(op, path, err) }

// Report returns what reports the client's events.
func (c *Client) Report() *report.Reporter { return c.report }

// Namespace returns the path in front of every path of a caller.
func (c *Client) Namespace() string { return c.config.Namespace }

// PersistentParents reports whether the parents of nodes are persistent, so that no server deletes them.
func (c *Client) PersistentParents() bool { return c.config.Containers.Missing() }

// ACL returns the ACL of nodes that the client creates.
func (c *Client) ACL() []zk.ACL { return c.config.ACL }

// Owner returns the label of contenders that have none of their own.
func (c *Client) Owner() string { return c.config.Owner }

// Nonce returns the name of an attempt, which no other attempt has.
func (c *Client) Nonce() string { return c.nonces.next() }

// Newest returns the newest session, which may be over.
func (c *Client) Newest() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Place returns the full path of the node at path below the namespace, or what is wrong with path as the node of a recipe.
func (c *Client) Place(path string) (full string, err error) {
	if err := zkpath.Check(path); err != nil {
		return "", err
	}
	full = c.config.Namespace + path
	return full, zkpath.CheckSize(full)
}

// WithSession runs reads of the node at path in a session, and again in the next one if
// the session ends.
func (c *Client) WithSession(ctx context.Context, path string, reads func(*Session) error) error {
	if ctx == nil {
		return c.Fail("read", path, sentinel.ErrNilContext)
	}
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return c.Fail("read", path, sentinel.WithCtx(ctx, err))
		}
		err = reads(s)
		if err == nil || s.Ended() == nil || ctx.Err() != nil {
			if err != nil {
				err = sentinel.WithCtx(ctx, err)
			}
			return err
		}
	}
}

// Unwanted returns the places of a queue that have no waiter or holder any more and whose
// nodes may exist. expiry is the longest time until one of them has expired, if that is
// known.
func (c *Client) Unwanted(queue string) (places []*nodes.Node, expiry time.Duration) {
	c.mu.Lock()
	s, before, renewed := c.current, c.previous, c.renewed
	c.mu.Unlock()
	places, expiry = s.Nodes.Unwanted(queue), math.MaxInt64
	// Once there has been another session for T, a server would have expired the one
	// before it. That one may have been abandoned without a server knowing.
	if left := s.Timeout() - time.Since(renewed); before != nil && left > 0 {
		if old := before.Nodes.Unwanted(queue); len(old) > 0 {
			places, expiry = append(places, old...), left
		}
	}
	return places, expiry
}
