// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/report"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/tuning"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// A Client is a connection to one ensemble. When a session is over, the client opens
// the next one. Claims and positions in a queue belong to one session and end with it.
//
// One Client serves a whole process; all its methods are safe for concurrent use.
type Client struct {
	settings *settings
	report   *report.Reporter
	nonces   *nonces
	expiry   *observer
	register registrations
	closing  context.Context // done when Close is called
	close    context.CancelFunc
	stopped  chan struct{} // closed when run has returned
	reported sync.Once     // guards closing report

	mu       sync.Mutex    // guards what follows
	current  *queueSession // the newest session that was opened
	previous *queueSession // the one before it
	renewed  time.Time     // when current was opened
	opening  *queueSession // the one that is being opened
	changed  chan struct{} // closed, and replaced, when current or refusal is set
	refusal  error         // why the client opens no further session
	history  knownHistory  // the one that was read last
}

// Connect opens a session with the ensemble of which servers are members:
// host:port each, the port defaulting to 2181. opts may be nil.
//
// An element of servers may also be a connect string as in other ZooKeeper
// configurations, "zk1:2181,zk2:2181/app". Its chroot is the first part of the
// namespace, in front of Options.Namespace, and applies to all elements: a second
// chroot that differs is an error.
//
// Connect returns when the session exists. Once ctx is done, it returns an error that
// names the servers that it could not reach, and why. It returns an error immediately
// if an argument is invalid or a server refuses the credentials. After an error nothing
// is left behind. The client outlives ctx: call Close.
//
// A Client cannot adopt a *zk.Conn of the caller: its promises about the end of a
// session depend on how it makes connections.
func Connect(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	if ctx == nil {
		return nil, &Error{Op: "connect", Err: sentinel.ErrNilContext}
	}
	settings, err := opts.check(servers)
	if err != nil {
		return nil, &Error{Op: "connect", Err: err}
	}
	settings.tuning = tuning.Of(ctx)
	closing, cancel := context.WithCancel(context.Background())
	c := &Client{
		settings: settings,
		report:   report.New(settings.trace, settings.logger),
		nonces:   newNonces(),
		closing:  closing,
		close:    cancel,
		stopped:  make(chan struct{}),
		changed:  make(chan struct{}),
	}
	c.expiry = newObserver(c)
	go c.run()
	if _, err := c.session(ctx); err != nil {
		c.Close()
		return nil, &Error{Op: "connect", Err: sentinel.WithCtx(ctx, err)}
	}
	return c, nil
}

// run opens one session after the other until the client is closed.
func (c *Client) run() {
	defer close(c.stopped)
	var closing sync.WaitGroup
	defer closing.Wait()
	for c.closing.Err() == nil {
		s, err := openSession(c.settings, c.report, c.newest() == nil)
		if err == nil {
			err = c.serve(s)
			c.mu.Lock()
			changed := c.changed
			c.mu.Unlock()
			// The next session does not wait until this one is closed.
			closing.Go(func() {
				c.delayClose(s, changed)
				s.Close()
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
func (c *Client) serve(s *queueSession) error {
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
	c.report.Opened(s.ID(), s.Server(), c.settings.sessionTimeout, s.Timeout())
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
func (c *Client) awaitOpened(s *queueSession) bool {
	began := time.Now()
	timer := time.NewTimer(c.settings.sessionTimeout / 4)
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
// immediately, and not after a count of T that began anew. Once there has been another
// session for T, a server would have expired the abandoned one.
func (c *Client) delayClose(s *queueSession, changed <-chan struct{}) {
	if !errors.Is(s.Ended(), session.ErrAbandoned) || s.IsMute() {
		return
	}
	attached := s.Attached()
	var late <-chan time.Time
	for {
		select {
		case <-attached:
			return
		case <-s.DialingStopped():
			return
		case <-c.closing.Done():
			return
		case <-changed:
			changed = nil
			late = time.After(s.Timeout())
		case <-late:
			return
		}
	}
}

func (c *Client) publish(s *queueSession, refusal error) {
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

// session returns the current session. It waits for one until ctx is done.
func (c *Client) session(ctx context.Context) (*queueSession, error) {
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
			return nil, fmt.Errorf("%w: %w", ctx.Err(), c.why())
		}
	}
}

// why returns what keeps the client from having a session.
func (c *Client) why() error {
	c.mu.Lock()
	s := c.opening
	c.mu.Unlock()
	if s == nil {
		return errors.New("no session yet")
	}
	return s.Why()
}

// Close ends the client: first its claims, whose contexts are cancelled with the
// cause ErrClosed, then the session. The session's nodes are deleted immediately if a
// server can be reached, and within the session timeout otherwise. Close returns when
// every goroutine of the client has ended, in about a second at most, and the trace
// has been notified of every loss and its last function has returned. A second call
// waits for the same end. Close does not wait for work that runs under a claim:
// release the claim first. If Close overtakes a release while no server can be
// reached, the release returns ErrUncertain; a release that begins later returns
// ErrLost.
//
// A function of the trace must not call Close.
func (c *Client) Close() {
	c.close()
	c.expiry.wait()
	c.register.wait()
	<-c.stopped
	c.reported.Do(c.report.Close)
}

// newest returns the newest session, which may be over.
func (c *Client) newest() *queueSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Conn returns the ZooKeeper client's connection of the current session, for the
// caller's own requests. It is useless once that session is over: call Conn again.
// Do not close it. The client's namespace does not apply. Nodes that it creates
// as ephemeral are deleted with the session, like those of the claims.
//
// Its watches outlast a reconnection, and lose no event, unless the server refuses to set
// them again (ThrottledOp): no caller learns of that. [Node.Watch] does.
func (c *Client) Conn() *zk.Conn { return c.newest().Conn() }

// Path returns the full path of the node at path, an absolute path below the
// client's namespace, for requests on Conn and for people; Path("/") is the
// namespace's own node. It does not check the path.
func (c *Client) Path(path string) string { return zkpath.Full(c.settings.namespace, path) }

// place returns the full path of the node at path below the namespace, or what is wrong with path as the node of a recipe.
func (c *Client) place(path string) (full string, err error) {
	if err := zkpath.Check(path); err != nil {
		return "", err
	}
	full = c.settings.namespace + path
	return full, zkpath.CheckSize(full)
}

// Owner returns Options.Owner, or its default.
func (c *Client) Owner() string { return c.settings.owner }

// SessionTimeout returns the session timeout T that the servers granted for the
// newest session.
func (c *Client) SessionTimeout() time.Duration { return c.newest().Timeout() }

// SessionID returns the id of the newest session, the one that the servers log.
func (c *Client) SessionID() int64 { return c.newest().ID() }

// OutstandingNodes returns how many nodes of this client may exist in its session: those of
// waiters and holders, those of registrations, those whose create was not answered yet, and those
// that are still to be deleted.
func (c *Client) OutstandingNodes() int { return c.newest().Outstanding() }

// DroppedEvents returns how many events the trace and the log have missed because
// they were too slow.
func (c *Client) DroppedEvents() int64 { return c.report.Dropped() }

// A knownHistory is the id that was read in a session.
type knownHistory struct {
	session *queueSession
	id      string
}
