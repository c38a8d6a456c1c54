// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// A Claim is a position in the queue that reached the front. A lock's hold and an
// election's term each consist of one.
//
// While Done is open, no claim that excludes this one is granted, on four
// conditions. An exclusive claim excludes every other of the queue; for others, see
// Mode and Permits. The conditions are: the session timeout T is at least four of the
// servers' ticks; the leader pings its followers on time; this process is scheduled;
// and its clock runs at the rate of the leader's. A process that is paused, or a machine that is
// suspended, can act after it lost the claim and before it can know; only a
// resource that checks the token is safe from that. If an operator deletes the
// claim's node, the claim ends when the client detects that, within T/6 as a rule.
// By then another contender may have been granted the claim.
//
// A claim is used once: a claim that has ended stays ended. All methods are safe
// for concurrent use.
type Claim struct {
	session *client.Session
	place   *place
	token   fencing.Token
	granted time.Time
	done    chan struct{} // closed when the claim ends

	mu      sync.Mutex                            // guards what follows
	cause   error                                 // why it ended
	err     error                                 // the error for cause, made on first use
	derived map[*context.CancelCauseFunc]struct{} // contexts to cancel when it ends

	downgraded bool // by Downgrade

	unreported atomic.Bool     // the claim is being taken over, and is not reported yet
	breadcrumb *leftBreadcrumb // nil if it left none; set before the holder has the claim

	released   sync.Once // guards releaseErr
	releaseErr error
}

// Token returns the claim's fencing token: the zxid with which its node was created.
// It is greater than that of every earlier claim of the same path, within one
// history of the ensemble. It does not change.
func (c *Claim) Token() fencing.Token { return c.token }

// Path returns the path of the claim's own node, namespace included.
func (c *Claim) Path() string { return c.place.Path }

// Done returns a channel that is closed when the claim has ended: lost, or released
// by its holder.
//
// After a loss of contact, Done is closed before ZooKeeper can grant the claim to
// another contender, on the conditions that the type's documentation names.
func (c *Claim) Done() <-chan struct{} { return c.done }

// Err returns nil while the claim is held. After the claim has ended it returns an
// error for which errors.Is finds ErrLost and one of ErrSessionExpired, ErrDeadline,
// ErrDeleted, ErrRevoked, ErrReleased and ErrClosed.
//
// It checks the clock: a call after the deadline itself ends the claim.
func (c *Claim) Err() error {
	if cause := c.session.EndOfGrants(time.Now()); cause != nil {
		c.lose(cause)
	}
	return c.ended()
}

// lose ends the claim for its session's cause. Another goroutine may have detected the cause
// first and be about to end the claim: its holder must get the same answer in the meantime.
func (c *Claim) lose(cause error) {
	if !c.end(cause) {
		return
	}
	if errors.Is(cause, sentinel.ErrDeadline) {
		c.session.Ungrant(c.place.Node)
		c.session.DeleteLater(c.place.Node)
	}
	c.reportLoss(cause)
}

// reportLoss reports the loss of the claim. The caller has ended it.
func (c *Claim) reportLoss(cause error) {
	if c.unreported.Load() {
		return
	}
	report := c.session.Client().Report()
	report.Over(c.place.Parent, c.place.Path, time.Since(c.granted), cause)
	report.Lost(c.place.Parent, c.place.Path, c.token, cause)
}

// ended returns why the claim ended, nil if it has not.
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

// Deadline returns the instant at which the claim ends unless there is a new proof
// that its session is alive. Proofs arrive every T/6, and each extends the deadline
// as a rule. Once the claim has ended, the result has no meaning.
func (c *Claim) Deadline() time.Time { return c.session.Deadline() }

// Context returns a copy of parent that is done when parent is, or when the
// claim ends; context.Cause then returns the same error as Err. Call the function when
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
	derived, first := c.closeDone(cause)
	c.cancel(derived)
	return first
}

// endWithoutBlocking is end for a goroutine that must not wait: cancelling a context can run
// methods of its parent, which the holder may have implemented and which may block. Done
// is closed when it returns.
func (c *Claim) endWithoutBlocking(cause error) bool {
	derived, first := c.closeDone(cause)
	if len(derived) > 0 {
		c.session.RunBlocking(func() { c.cancel(derived) })
	}
	return first
}

// closeDone closes Done. It returns the contexts to cancel, and whether this call ended the
// claim.
func (c *Claim) closeDone(cause error) (derived map[*context.CancelCauseFunc]struct{}, first bool) {
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

// Check asks the ensemble whether the claim is held, with one write through its
// quorum that changes nothing. It returns nil if the claim was held when the write
// was carried out, ErrLost if the claim is no longer held, and otherwise the error
// that prevented the check. The claim can be lost between the answer and the
// caller's next action: Check does not replace the token.
func (c *Claim) Check(ctx context.Context) error {
	if ctx == nil {
		return &Error{Op: "check", Path: c.Path(), Err: sentinel.ErrNilContext}
	}
	if err := c.Err(); err != nil {
		return err
	}
	_, err := session.RetryAs(ctx, c.session.Session, session.Holder, "check", c.Path(), func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, c.session.Check(conn, []*session.Node{c.place.Node})
	})
	if err == nil {
		return nil
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	if loss := (*session.LossError)(nil); errors.As(err, &loss) {
		if c.end(loss.Cause) { // the heartbeat that detected it may be about to
			c.reportLoss(loss.Cause)
		}
		return c.ended()
	}
	return sentinel.WithCtx(ctx, err)
}

// release ends the claim for its holder, and then deletes its node. A second call returns the
// first result.
func (c *Claim) release(ctx context.Context) error {
	c.released.Do(func() {
		c.releaseErr = c.releaseOnce(ctx)
		c.session.Client().Report().Released(c.place.Parent, c.place.Path, c.releaseErr)
	})
	return c.releaseErr
}

func (c *Claim) releaseOnce(ctx context.Context) error {
	if lost := c.Err(); lost != nil || !c.end(sentinel.ErrReleased) {
		// Lost before: the owner deletes its node now, without waiting for T/4, as the
		// work has stopped.
		c.session.EndGrace(c.place.Node)
		return c.ended()
	}
	c.session.Client().Report().Over(c.place.Parent, c.place.Path, time.Since(c.granted), sentinel.ErrReleased)
	c.session.Ungrant(c.place.Node)
	return c.deleteNode(ctx)
}

// deleteNode deletes the node of a claim that was held until now.
func (c *Claim) deleteNode(ctx context.Context) error {
	s := c.session
	fail := func(err error) error { return &Error{Op: "release", Path: c.place.Path, Err: err} }
	s.BeginDelete(c.place.Node) // otherwise the owner could delete it at the same time
	remove := func() (existed bool, err error) { return s.Delete(ctx, c.place.Node, session.Holder) }
	if c.breadcrumb != nil {
		remove = func() (bool, error) { return c.breadcrumb.deleteWith(ctx, s.Session, c.place.Node) }
	}
	existed, err := remove()
	switch {
	case err == nil && existed:
		return nil
	case err == nil:
		return lost(c.place.Parent, sentinel.ErrDeleted)
	case s.Ended() != nil: // the node is deleted with its session
		return fail(fmt.Errorf("%w: %w", sentinel.ErrUncertain, err))
	}
	s.DeleteSoon(c.place.Node)
	if session.OutcomeOf(err) == session.Refused {
		return err
	}
	return fail(fmt.Errorf("%w, deletion continues in the background: %w", sentinel.ErrUncertain, err))
}

// An ending ends a claim with its session, or with its node.
type ending struct{ claim *Claim }

// End closes Done before it returns. Client.Close waits, and closing the session deletes
// the nodes, so for ErrClosed the contexts are cancelled first. Other callers must not wait.
func (e ending) End(cause error) (report func()) {
	c := e.claim
	end := c.endWithoutBlocking
	if errors.Is(cause, sentinel.ErrClosed) {
		end = c.end
	}
	if !end(cause) {
		return nil
	}
	return func() { c.reportLoss(cause) }
}
