// SPDX-License-Identifier: Apache-2.0

// Package claim is the engine of a claim: what was granted, until it is lost or released.
package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// A Claim is the engine of a recipes.Claim, whose documentation has its conditions. All methods are safe for
// concurrent use.
type Claim struct {
	call    context.Context // of the call for the claim, for the report of the claim's end
	session *client.Session
	node    *nodes.Node
	token   fencing.Token
	mode    protocol.Mode
	number  int  // of a slot
	waited  bool // the contender had a predecessor
	lists   int  // how often the contender listed the queue after it began to wait
	granted time.Time
	done    chan struct{} // closed when the claim ends

	mu      sync.Mutex                            // guards what follows
	cause   error                                 // why it ended
	err     error                                 // the error for cause, made on first use
	derived map[*context.CancelCauseFunc]struct{} // contexts to cancel when it ends
	shared  bool                                  // others may hold the queue as well

	unreported atomic.Bool // the claim is being taken over, and is not reported yet
	remove     Removal     // nil: the node is deleted; set before the holder has the claim

	released   sync.Once // guards releaseErr
	releaseErr error
}

// A Removal deletes the node of a claim that its holder releases, and whatever goes with it. existed is as in Session.Delete.
type Removal func(ctx context.Context, s *session.Session, n *nodes.Node) (existed bool, err error)

// Session returns the session to which the claim belongs.
func (c *Claim) Session() *client.Session { return c.session }

// Node returns the claim's node.
func (c *Claim) Node() *nodes.Node { return c.node }

// Mode returns the mode in which the claim was granted.
func (c *Claim) Mode() protocol.Mode { return c.mode }

// Waited reports whether the contender had a predecessor, and how often it has listed the queue since it began to wait.
func (c *Claim) Waited() (waited bool, listings int) { return c.waited, c.lists }

// Number returns the number of a slot.
func (c *Claim) Number() int { return c.number }

// Shared reports whether others may hold the same queue.
func (c *Claim) Shared() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shared
}

// MarkShared records that other readers may hold the claim beside this one.
func (c *Claim) MarkShared() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = true
}

// fail returns the error of an operation on the claim's node.
func (c *Claim) fail(op string, err error) error {
	return c.session.Client().Fail(op, c.node.Path, err)
}

// Token returns the zxid with which the claim's node was created, or of the grant of a slot.
func (c *Claim) Token() fencing.Token { return c.token }

// Path returns the path of the claim's own node, namespace included.
func (c *Claim) Path() string { return c.node.Path }

// Done returns a channel that is closed when the claim has ended.
func (c *Claim) Done() <-chan struct{} { return c.done }

// Err returns nil while the claim is held, and after that ErrLost with the cause. It checks the clock.
func (c *Claim) Err() error {
	if cause := c.session.EndOfGrants(time.Now()); cause != nil {
		c.lose(cause)
	}
	return c.ended()
}

// lose ends the claim for its session's cause. Another goroutine may have detected the cause
// first and be about to end the claim: its holder must get the same answer in the meantime.
func (c *Claim) lose(cause error) {
	if !c.End(cause) {
		return
	}
	if errors.Is(cause, sentinel.ErrDeadline) {
		c.session.DeleteLater(c.node) // first: a node without a grant is deleted immediately if it is lost
		c.session.Nodes.Ungrant(c.node)
	}
	c.reportLoss(cause)
}

// EndLost ends the claim that a server's answer shows to be lost, and returns its error. Another goroutine may have detected the loss
// first, and be about to end the claim.
func (c *Claim) EndLost(cause error) error {
	if c.End(cause) {
		c.reportLoss(cause)
	}
	return c.ended()
}

// reportLoss reports the loss of the claim. The caller has ended it.
func (c *Claim) reportLoss(cause error) {
	if c.unreported.Load() {
		return
	}
	report := c.session.Client().Report()
	report.Over(c.call, c.node.Parent, c.node.Path, c.token, time.Since(c.granted), cause)
	report.Lost(c.node.Parent, c.node.Path, c.token, cause)
}

// lost returns the error of a claim that ended for cause.
func (c *Claim) lost(cause error) error {
	return c.session.Client().Fail("hold", c.node.Parent, fmt.Errorf("%w: %w", sentinel.ErrLost, cause))
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
		c.err = c.lost(c.cause)
	}
	return c.err
}

// Deadline returns the instant at which the claim ends without a new proof.
func (c *Claim) Deadline() time.Time { return c.session.Deadline() }

// Context returns a copy of parent that is done when parent is, or when the claim ends.
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

// End ends the claim, and reports whether this call did.
func (c *Claim) End(cause error) bool {
	derived, first := c.closeDone(cause)
	c.cancel(derived)
	return first
}

// endWithoutBlocking is End for a goroutine that must not wait: cancelling a context can run
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

// Check asks a quorum whether the claim is held. If the claim is lost, its error is ErrLost.
func (c *Claim) Check(ctx context.Context) error {
	if ctx == nil {
		return c.fail("check", sentinel.ErrNilContext)
	}
	if err := c.Err(); err != nil {
		return err
	}
	// A server may not answer before another client is granted the claim: the answer matters until the claim ends.
	held, cancel := c.Context(ctx)
	err := c.session.CheckGrouped(held, c.node)
	cancel()
	if err == nil {
		return nil
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	if loss := (*session.LossError)(nil); errors.As(err, &loss) {
		return c.EndLost(loss.Cause)
	}
	return sentinel.WithCtx(ctx, err)
}

// Release ends the claim for its holder, and then deletes its node. A second call returns the
// first result.
func (c *Claim) Release(ctx context.Context) error {
	c.released.Do(func() {
		c.releaseErr = c.releaseOnce(ctx)
		c.session.Client().Report().Released(c.node.Parent, c.node.Path, c.releaseErr)
	})
	return c.releaseErr
}

func (c *Claim) releaseOnce(ctx context.Context) error {
	if lost := c.Err(); lost != nil || !c.End(sentinel.ErrReleased) {
		// Lost before: the owner deletes its node now, without waiting for T/4, as the
		// work has stopped.
		c.session.EndGrace(c.node)
		return c.ended()
	}
	c.session.Client().Report().Over(c.call, c.node.Parent, c.node.Path, c.token, time.Since(c.granted), sentinel.ErrReleased)
	c.session.Nodes.Ungrant(c.node)
	return c.deleteNode(ctx)
}

// Abandon ends a claim under which no work has begun, and deletes its node. It waits for the deletion while a server serves
// the session, for limit at most. The rest is done in the background.
func (c *Claim) Abandon(limit time.Duration) {
	c.released.Do(func() {
		if c.Err() != nil || !c.End(sentinel.ErrReleased) {
			c.session.EndGrace(c.node)
			c.releaseErr = c.ended()
		} else {
			c.session.Client().Report().Over(c.call, c.node.Parent, c.node.Path, c.token, time.Since(c.granted), sentinel.ErrReleased)
			c.session.Nodes.Ungrant(c.node)
			c.session.Discard(c.node, limit)
			select {
			case <-c.node.Gone():
			default:
				c.releaseErr = c.fail("release", fmt.Errorf("%w, deletion continues in the background", sentinel.ErrUncertain))
			}
		}
		c.session.Client().Report().Released(c.node.Parent, c.node.Path, c.releaseErr)
	})
}

// deleteNode deletes the node of a claim that was held until now.
func (c *Claim) deleteNode(ctx context.Context) error {
	s := c.session
	fail := func(err error) error { return c.fail("release", err) }
	s.Nodes.BeginDelete(c.node) // otherwise the owner could delete it at the same time
	remove := c.remove
	if remove == nil {
		remove = func(ctx context.Context, s *session.Session, n *nodes.Node) (bool, error) {
			return s.Delete(ctx, n, session.Holder)
		}
	}
	existed, err := remove(ctx, s.Session, c.node)
	switch {
	case err == nil && existed:
		return nil
	case err == nil:
		return c.lost(sentinel.ErrDeleted)
	case s.Ended() != nil: // the node is deleted with its session
		return fail(fmt.Errorf("%w: %w", sentinel.ErrUncertain, err))
	}
	s.DeleteSoon(c.node)
	if session.OutcomeOf(err) == session.Refused {
		return err
	}
	return fail(fmt.Errorf("%w, deletion continues in the background: %w", sentinel.ErrUncertain, err))
}

// TakeOver runs take, which passes a former holder, before the holder has the claim. A loss in the meantime is not reported. If it returns an error or panics,
// the claim ends, and its node stays. remove is how the node is deleted when the holder releases the claim.
func (c *Claim) TakeOver(take func() (remove Removal, err error)) error {
	c.unreported.Store(true)
	taken := false
	defer func() {
		if !taken && c.End(sentinel.ErrReleased) {
			c.session.Nodes.Ungrant(c.node)
		}
	}()
	remove, err := take()
	if lost := c.Err(); lost != nil {
		return lost // which caused the error, if there is one
	}
	if err != nil {
		return err
	}
	c.remove = remove
	c.unreported.Store(false)
	taken = true
	return nil
}

// Ender returns what ends the claim with its session, or with its node.
func (c *Claim) Ender() nodes.Ender { return ending{c} }

// An ending ends a claim with its session, or with its node.
type ending struct{ claim *Claim }

// End closes Done before it returns. Client.Close waits, and closing the session deletes
// the nodes, so for ErrClosed the contexts are cancelled first. Other callers must not wait.
func (e ending) End(cause error) (report func()) {
	c := e.claim
	end := c.endWithoutBlocking
	if errors.Is(cause, sentinel.ErrClosed) {
		end = c.End
	}
	if !end(cause) {
		return nil
	}
	return func() { c.reportLoss(cause) }
}
