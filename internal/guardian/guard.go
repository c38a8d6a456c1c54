// SPDX-License-Identifier: Apache-2.0

// Package guardian is the engine of package guard: it closes the sessions of a process that has died.
//
// Reading order: session.go, closing.go and sessions.go for how sessions are closed; message.go; deaths_linux.go, hello_linux.go and
// parent_linux.go for the guardian's side, victims_linux.go for the processes that it kills first; link.go and guard.go for the
// side of the process; child_linux.go and serve.go.
package guardian

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
)

// errClosed is the error of a Guard that is closed.
var errClosed = errors.New("the guard is closed")

// A Guard registers the sessions of this process with its guardian, and with a new one when that has ended. It is safe for
// concurrent use.
type Guard struct {
	connect func(ctx context.Context) (l *link, end func(), err error) // end waits for what connect has started
	ctx     context.Context                                            // done when Close is called
	cancel  context.CancelFunc
	over    func()        // called after the end of the last guardian
	stopped chan struct{} // closed when run has returned

	mu       sync.Mutex // guards what follows
	link     *link      // nil while there is no guardian
	why      error      // why there is none
	changed  chan struct{}
	sessions map[int64]*standing
	group    *standing // nil for none
}

// A standing request is one that every new guardian gets.
type standing struct {
	message
	answered bool
	err      error // nil if the guardian has granted it
}

// newGuard returns a Guard with its first guardian. ctx bounds only the wait for that. over is called at the end of the Guard, and
// after an error.
func newGuard(ctx context.Context, connect func(ctx context.Context) (*link, func(), error), over func()) (*Guard, error) {
	l, end, err := connect(ctx)
	if err != nil {
		over()
		return nil, err
	}
	g := &Guard{connect: connect, over: over, stopped: make(chan struct{}), changed: make(chan struct{}), sessions: map[int64]*standing{}}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.use(l)
	go g.run(l, end)
	return g, nil
}

// Close ends the guardian, if this process has started it, or the connection to it. Sessions of this process are not guarded any
// longer, or as long as the guardian of the socket lives.
func (g *Guard) Close() error {
	g.cancel()
	<-g.stopped
	return nil
}

// The pauses before attempts to start a guardian, and how long one must have lived for the first pause.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 10 * time.Second
)

// run waits for the end of each guardian, and starts the next one.
func (g *Guard) run(l *link, end func()) {
	defer close(g.stopped)
	defer g.over()
	for wait := firstPause; ; {
		began := time.Now()
		select {
		case <-l.ended:
		case <-g.ctx.Done():
			l.close()
		}
		end()
		g.lose(errEnded)
		if time.Since(began) > longestPause {
			wait = firstPause
		}
		for l = nil; l == nil; wait = min(2*wait, longestPause) {
			if !pause(g.ctx, wait) {
				g.lose(errClosed)
				return
			}
			ctx, cancel := context.WithTimeout(g.ctx, longestPause)
			var err error
			if l, end, err = g.connect(ctx); err != nil {
				g.lose(fmt.Errorf("no guardian: %w", err))
			}
			cancel()
		}
		g.use(l)
	}
}

// use makes all standing requests to a new guardian. A group that is to be killed first precedes the sessions.
func (g *Guard) use(l *link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.link = l
	if g.group != nil {
		g.ask(g.group)
	}
	for _, s := range g.sessions {
		g.ask(s)
	}
	g.announce()
}

// lose records why there is no guardian.
func (g *Guard) lose(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.link, g.why = nil, why
	for _, s := range g.sessions {
		s.answered, s.err = false, why
	}
	if g.group != nil {
		g.group.answered, g.group.err = false, why
	}
	g.announce()
}

// announce wakes those who wait for a change. The caller holds mu.
func (g *Guard) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// ask makes a standing request to the guardian, if there is one. The caller holds mu.
func (g *Guard) ask(s *standing) {
	if g.link == nil {
		s.err = g.why
		return
	}
	s.err = errors.New("the guardian has not answered")
	// If the link is over, run is about to lose it. All its answers precede the use of the next one.
	g.link.send(s.message, func(err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		s.answered, s.err = !errors.Is(err, errEnded), err
		g.announce()
	})
}

// await waits until a guardian has answered the request. It returns nil if that is granted.
func (g *Guard) await(ctx context.Context, s *standing) error {
	for {
		g.mu.Lock()
		answered, err, changed := s.answered, s.err, g.changed
		g.mu.Unlock()
		if answered {
			return err
		}
		select {
		case <-changed:
		case <-g.ctx.Done():
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctxerr.Ended(ctx), err)
		}
	}
}

// Rehearse has the guardian open and close a session of its own: see [Rehearse].
func (g *Guard) Rehearse(ctx context.Context, servers []string, timeout time.Duration) error {
	answered := make(chan error, 1)
	m := message{Kind: rehearse, Session: &Session{Servers: servers, Timeout: timeout}}
	for {
		g.mu.Lock()
		l, why, changed := g.link, g.why, g.changed
		g.mu.Unlock()
		if l != nil && l.send(m, func(err error) { answered <- err }) {
			changed = nil
		}
		select {
		case err := <-answered:
			return err
		case <-changed:
		case <-g.ctx.Done():
			return errClosed
		case <-ctx.Done():
			return errors.Join(ctxerr.Ended(ctx), why)
		}
	}
}

// Protect registers a session, and returns when the guardian has acknowledged it. After an error of ctx the guardian may do so
// later.
func (g *Guard) Protect(ctx context.Context, servers []string, session int64, password []byte, timeout time.Duration) error {
	s := &standing{message: message{Kind: guard, Session: &Session{Servers: servers, ID: session, Password: password, Timeout: timeout}}}
	g.mu.Lock()
	g.sessions[session] = s
	g.ask(s)
	g.mu.Unlock()
	return g.await(ctx, s)
}

// Forget says that a session has ended. It does not wait.
func (g *Guard) Forget(session int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, session)
	if g.link != nil {
		g.link.send(message{Kind: forget, Session: &Session{ID: session}}, func(error) {})
	}
}

// Guarded returns nil if the guardian has acknowledged the session, and otherwise the reason why it has not.
func (g *Guard) Guarded(session int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sessions[session]; s != nil {
		return s.err
	}
	return errors.New("the session is not registered with a guardian")
}

// Group sets the process group that the guardian kills before it closes a session: of a process that lives, or of a zombie. 0 is
// none, and [Unknown] keeps the guardian from closing any session. After an error the guardian may close none, either.
func (g *Guard) Group(ctx context.Context, id int) error {
	s := &standing{message: message{Kind: group, Group: id}}
	g.mu.Lock()
	g.group = s
	g.ask(s)
	g.mu.Unlock()
	return g.await(ctx, s)
}
