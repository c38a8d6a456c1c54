// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
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
	session *session
	place   *place
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
func (c *Claim) Token() fencing.Token { return fencing.Token(c.place.member.czxid) }

// Path is the path of the claim's own node, namespace included.
func (c *Claim) Path() string { return c.place.path }

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
	c.session.lapse(time.Now())
	c.lapse()
	return c.ended()
}

// lapse ends the claim if its deadline has passed. Somebody else may have found
// out, and be about to do so: whoever asks is not to be told otherwise.
func (c *Claim) lapse() {
	s := c.session
	if s.trust.left(time.Now()) > 0 || !c.end(ErrDeadline) {
		return
	}
	s.mu.Lock()
	delete(s.claims, c)
	s.mu.Unlock()
	s.owe(c)
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
		c.err = lost(c.place.line, c.cause)
	}
	return c.err
}

// Deadline is the instant at which the claim ends unless there is a new proof
// that its session lives. Proofs come every T/6, and each moves it on as a rule.
// Once the claim has ended it says nothing any more.
func (c *Claim) Deadline() time.Time { return c.session.trust.deadline() }

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

// end ends the claim, and says whether this call did.
func (c *Claim) end(cause error) bool {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return false
	}
	c.cause = cause
	derived := c.derived
	c.derived = nil
	c.mu.Unlock()

	close(c.done)
	for cancel := range derived {
		(*cancel)(c.ended())
	}
	return true
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
	err := c.session.prove(ctx, c.place)
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

// Commit carries out ZooKeeper operations if, and only if, the claim is held:
// they go out in one transaction with a check that the claim's own node is still
// there. State that is kept in ZooKeeper itself is fenced by it, without a token:
// no such write is carried out once the node is gone, and so none after another's
// grant, also if this process was paused or the node was deleted by hand. Package
// epoch adds a number that others can read, and that ends by hand what it counts.
//
// Each op is one of *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest and
// *zk.CheckVersionRequest, with full paths: the client's namespace is not added.
// The responses are those of ops, in order; if one of them was refused, the error
// is the server's, and the responses say which. It is sent once: an ErrUncertain
// means that the answer did not come back, because ctx ended or the connection
// broke, and that the operations may or may not have been carried out. With an
// ErrLost, and with any other error, nothing was changed.
func (c *Claim) Commit(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	fail := func(err error) ([]zk.MultiResponse, error) {
		return nil, &Error{Op: "commit", Path: c.Path(), Err: err}
	}
	if ctx == nil {
		return fail(errNilContext)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if err := checkOps(ops); err != nil {
		return fail(err)
	}
	all := append([]any{&zk.CheckVersionRequest{Path: c.place.path, Version: 0}}, ops...)
	sent := time.Now()
	responses, err := call(ctx, c.session, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(all...)
	})
	switch outcomeOf(err) {
	case done:
		c.session.trust.proof(sent, time.Now())
		return responses[1:], nil
	case refused:
		if errors.Is(err, zk.ErrSessionExpired) {
			c.session.end(errExpired)
			c.end(errExpired) // whoever was first may be about to
			return nil, c.ended()
		}
		if len(responses) == 0 {
			return fail(err)
		}
		if own := responses[0].Error; errors.Is(own, zk.ErrNoNode) || errors.Is(own, zk.ErrBadVersion) {
			c.session.bereave(c.place)
			c.end(ErrDeleted)
			return nil, c.ended()
		}
		responses = responses[1:]
		return responses, &Error{Op: "commit", Path: c.Path(), Err: err}
	case unsent:
		if ended := c.Err(); ended != nil {
			return nil, ended
		}
		return fail(withCtx(ctx, err))
	}
	if errors.Is(err, ErrUncertain) {
		return fail(withCtx(ctx, err))
	}
	return fail(fmt.Errorf("%w: %w", ErrUncertain, err))
}

// checkOps refuses what a server would answer by dropping the connection.
func checkOps(ops []any) error {
	size := 0
	for i, op := range ops {
		if v := reflect.ValueOf(op); v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("operation %d is a nil %T", i, op)
		}
		switch op := op.(type) {
		case *zk.CreateRequest:
			size += len(op.Path) + len(op.Data)
			for _, acl := range op.Acl {
				size += len(acl.Scheme) + len(acl.ID) + 12
			}
		case *zk.SetDataRequest:
			size += len(op.Path) + len(op.Data)
		case *zk.DeleteRequest:
			size += len(op.Path)
		case *zk.CheckVersionRequest:
			size += len(op.Path)
		default:
			return fmt.Errorf("operation %d is a %T, and not one of the ZooKeeper client's requests for a transaction", i, op)
		}
		size += 64 // more than the numbers around them take
	}
	if size > maxTransaction {
		return fmt.Errorf("operations of %d bytes are over the limit of %d for a transaction", size, maxTransaction)
	}
	return nil
}

// giveUp ends the claim on the holder's behalf, and then deletes its node. Called
// again, it returns the first result.
func (c *Claim) giveUp(ctx context.Context) error {
	c.release.Do(func() {
		c.releaseErr = c.doGiveUp(ctx)
		c.session.report.released(c, c.releaseErr)
	})
	return c.releaseErr
}

func (c *Claim) doGiveUp(ctx context.Context) error {
	s := c.session
	s.lapse(time.Now())
	c.lapse()
	if !c.end(ErrReleased) {
		// Lost before: its node is the ledger's business, and need not be kept
		// until the work has stopped.
		s.ledger.hasten(c.place)
		s.poke()
		return c.ended()
	}
	s.mu.Lock()
	delete(s.claims, c)
	s.mu.Unlock()

	// Until it is deleted the keeper must not take the node for a claim's, nor
	// sweep it: this call is about to delete it.
	s.ledger.part(c.place)
	existed, err := s.erase(ctx, c.place)
	switch {
	case err != nil && s.ctx.Err() != nil: // it goes with its session
		return &Error{Op: "release", Path: c.place.path, Err: fmt.Errorf("%w: %w", ErrUncertain, err)}
	case err != nil:
		s.ledger.leave(c.place)
		s.poke()
		if outcomeOf(err) == refused {
			return err
		}
		return &Error{Op: "release", Path: c.place.path, Err: fmt.Errorf("%w, and goes on in the background: %w", ErrUncertain, err)}
	case !existed:
		return lost(c.place.line, ErrDeleted)
	}
	return nil
}
