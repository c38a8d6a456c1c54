// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A Claim is a place in line that reached the front: what a lock's hold and an
// election's term are made of.
//
// While Done is open, no other claim of the same line is granted, on these
// conditions: the session timeout T is at least four of the servers' ticks, the
// leader pings its followers on time, this process is scheduled, and its clock
// runs at the rate of the leader's. A process that is paused, or a machine that is
// suspended, can act after it lost the claim and before it can know; against that
// helps only a resource that checks the token. A node that is deleted by hand ends
// the claim when that is seen, within T/6 as a rule, which is after others may have
// been granted it.
//
// A claim is used once: when it has ended it stays ended. All methods are safe
// for concurrent use.
type Claim struct {
	session *queueSession
	place   *place
	token   fencing.Token
	done    chan struct{} // closed when the claim ends

	mu      sync.Mutex                            // guards what follows
	cause   error                                 // why it ended
	err     error                                 // what says so, made when it is asked for
	derived map[*context.CancelCauseFunc]struct{} // contexts to be ended with it

	release    sync.Once // runs the release; guards releaseErr
	releaseErr error
}

// Token is the claim's fencing token: the zxid with which its node was created.
// It is greater than that of every earlier claim of the same path, within one
// history of the ensemble. It does not change.
func (c *Claim) Token() fencing.Token { return c.token }

// Path is the path of the claim's own node, namespace included.
func (c *Claim) Path() string { return c.place.Path }

// Done is closed when the claim has ended: lost, or given up by its holder.
//
// After a loss of contact that is before the ensemble lets anybody else have it,
// on the conditions that the type's documentation names.
func (c *Claim) Done() <-chan struct{} { return c.done }

// Err is nil while the claim is held, and afterwards says why it ended: an error
// for which errors.Is finds ErrLost and one of ErrSessionExpired, ErrDeadline,
// ErrDeleted, ErrReleased and ErrClosed.
//
// It looks at the clock: an Err after the deadline ends the claim by itself.
func (c *Claim) Err() error {
	c.lapse()
	return c.ended()
}

// lapse ends the claim if its deadline has passed or its session is over. Another
// goroutine may have found out first, and be about to do so: until then a caller
// that asks must not get another answer.
func (c *Claim) lapse() {
	s := c.session
	s.Lapse(time.Now())
	cause := s.Ended()
	if cause == nil && s.Left(time.Now()) <= 0 {
		cause = ErrDeadline
	}
	if cause == nil || !c.end(cause) {
		return
	}
	if errors.Is(cause, ErrDeadline) {
		s.Ungrant(c.place.Node)
		s.DeleteLater(c.place.Node)
	}
	s.report.lost(c.place.Parent, c.place.Path, c.token, cause)
}

// ended is why the claim ended, nil if it has not.
func (c *Claim) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endedLocked()
}

// endedLocked is ended for a caller that holds mu.
func (c *Claim) endedLocked() error {
	if c.err == nil && c.cause != nil {
		c.err = lost(c.place.Parent, c.cause)
	}
	return c.err
}

// Deadline is the instant at which the claim ends unless there is a new proof
// that its session lives. Proofs come every T/6, and each moves it on as a rule.
// Once the claim has ended it says nothing any more.
func (c *Claim) Deadline() time.Time { return c.session.Deadline() }

// Context returns a copy of parent that is done when parent is, or when the
// claim ends; context.Cause then returns what Err does. Call the function when
// the context is no longer needed.
func (c *Claim) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	c.mu.Lock()
	err := c.endedLocked()
	if err == nil {
		if c.derived == nil {
			c.derived = make(map[*context.CancelCauseFunc]struct{})
		}
		c.derived[&cancel] = struct{}{}
	}
	c.mu.Unlock()
	if err != nil {
		cancel(err)
	}
	return ctx, func() {
		c.mu.Lock()
		delete(c.derived, &cancel)
		c.mu.Unlock()
		cancel(context.Canceled)
	}
}

// end ends the claim, and reports whether this call did.
func (c *Claim) end(cause error) bool {
	derived, first := c.finish(cause)
	c.cancel(derived)
	return first
}

// endElsewhere is end for a goroutine that must not wait: to cancel a context can run
// methods of its parent, which the holder may have written, and which may block. Done is
// closed when it returns.
func (c *Claim) endElsewhere(cause error) bool {
	derived, first := c.finish(cause)
	if len(derived) > 0 {
		c.session.RunStray(func() { c.cancel(derived) })
	}
	return first
}

// finish closes Done. It returns the contexts that are to be cancelled, and whether the
// claim had not ended before.
func (c *Claim) finish(cause error) (derived map[*context.CancelCauseFunc]struct{}, first bool) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return nil, false
	}
	c.cause = cause
	derived = c.derived
	c.derived = nil
	c.mu.Unlock()
	close(c.done)
	return derived, true
}

func (c *Claim) cancel(derived map[*context.CancelCauseFunc]struct{}) {
	for cancel := range derived {
		(*cancel)(c.ended())
	}
}

// Check asks the ensemble, now: one write through its quorum that changes
// nothing. It returns nil if the claim was held when that was carried out, an
// ErrLost if it is not, and otherwise an error that says what came in the way.
// Between its answer and what the caller does next the claim can be lost: it is
// no replacement for the token.
func (c *Claim) Check(ctx context.Context) error {
	if ctx == nil {
		return &Error{Op: "check", Path: c.Path(), Err: errNilContext}
	}
	if err := c.Err(); err != nil {
		return err
	}
	_, err := session.AskAs(ctx, c.session.Session, session.Holder, "check", c.Path(), func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, c.session.Check(conn, []*session.Node{c.place.Node})
	})
	if err == nil {
		return nil
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	if errors.Is(err, ErrDeleted) {
		c.end(ErrDeleted) // the heartbeat that found out may be about to
		return c.ended()
	}
	return withCtx(ctx, err)
}

// giveUp ends the claim on the holder's behalf, and then deletes its node. Called
// again, it returns the first result.
func (c *Claim) giveUp(ctx context.Context) error {
	c.release.Do(func() {
		c.releaseErr = c.doGiveUp(ctx)
		c.session.report.released(c.place.Parent, c.place.Path, c.releaseErr)
	})
	return c.releaseErr
}

func (c *Claim) doGiveUp(ctx context.Context) error {
	s := c.session
	c.lapse()
	if !c.end(ErrReleased) {
		// Lost before: the owner deletes its node, which need not be kept until the
		// work has stopped.
		s.Hasten(c.place.Node)
		return c.ended()
	}
	s.Ungrant(c.place.Node)

	// Until it is deleted the owner must not take the node for a claim's, nor
	// delete it: this call is about to.
	s.Part(c.place.Node)
	existed, err := s.Erase(ctx, c.place.Node, session.Holder)
	switch {
	case err != nil && s.Ended() != nil: // it goes with its session
		return &Error{Op: "release", Path: c.place.Path, Err: fmt.Errorf("%w: %w", ErrUncertain, err)}
	case err != nil:
		s.Leave(c.place.Node)
		if session.OutcomeOf(err) == session.Refused {
			return err
		}
		return &Error{Op: "release", Path: c.place.Path, Err: fmt.Errorf("%w, and goes on in the background: %w", ErrUncertain, err)}
	case !existed:
		return lost(c.place.Parent, ErrDeleted)
	}
	return nil
}

// An ending ends a claim with its session, or with its node.
type ending struct{ claim *Claim }

// End closes Done before it returns. The caller of Close waits, and the nodes go when the
// session is closed: for it the contexts are cancelled before. Other callers must not wait.
func (e ending) End(cause error) (report func()) {
	c := e.claim
	end := c.endElsewhere
	if errors.Is(cause, ErrClosed) {
		end = c.end
	}
	if !end(cause) {
		return nil
	}
	return func() { c.session.report.lost(c.place.Parent, c.place.Path, c.token, cause) }
}
