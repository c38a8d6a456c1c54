// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// The heartbeats of a session prove that it lives, and that its nodes exist. It is safe for concurrent use.
type heartbeats struct {
	*sender
	deletions *deletions
	schedule  heartbeatState
}

// sendDueHeartbeat sends a heartbeat if one is due. It returns how long the owner may sleep.
func (h *heartbeats) sendDueHeartbeat(now time.Time) time.Duration {
	timeout := h.Timeout()
	next := timeout
	_, granted := h.Nodes.Count()
	if h.IsServed() && h.schedule.isNeeded(granted) {
		interval := h.interval(granted)
		checked, wanted, wait := h.schedule.begin(now, interval, h.Nodes.IsLeft, func(first []*nodes.Node) []*nodes.Node {
			return h.Nodes.NextChecks(now.Add(-h.period()), first)
		})
		switch {
		case len(checked) > 0:
			next = min(interval, h.patience())
			h.sendHeartbeat(now, checked, wanted)
		case wait > 0:
			next = wait
		}
	}
	if granted > 0 {
		// Timers stand still while the machine is suspended: the owner wakes more
		// often to read the wall clock.
		next = min(next, timeout/24, max(h.lease.Left(now), 1))
	}
	return next
}

// sendHeartbeat sends a heartbeat, on a goroutine of the session. Its answer is reported with
// the time that was left until the deadline before the answer moved it.
func (h *heartbeats) sendHeartbeat(sent time.Time, checked []*nodes.Node, wanted []*proofRequest) {
	deadline := h.lease.Deadline()
	_, granted := h.Nodes.Count()
	// An error means that the session is over and needs no heartbeat.
	_ = h.spawn(func() {
		_, err := callWithoutTurn(h, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, h.Check(conn, checked) })
		deadline = later(deadline, h.schedule.moved(h.lease.Deadline())) // by the heartbeat before
		again := h.mayRepeat(err)
		var next time.Time
		switch {
		case errors.Is(err, sentinel.ErrDeleted):
			next = time.Now() // the failed check proves nothing about the other nodes
			again = true
		case errors.Is(err, errReleased):
			next = time.Now().Add(h.Timeout() / 48)
			again = true
		case err == nil:
			h.schedule.hasten(h.interval(granted))
		}
		if again {
			h.schedule.end(wanted, next)
		} else {
			h.schedule.end(nil, next)
			for _, w := range wanted {
				w.err = err
				close(w.answered)
			}
		}
		_, grants := h.Nodes.Count()
		h.events.Heartbeat(time.Since(sent), err)
		if err == nil && granted > 0 {
			h.events.Proved(max(0, time.Until(deadline)), h.Timeout())
		}
		h.alarm.Ring()
		if grants > len(checked) || errors.Is(err, sentinel.ErrDeleted) {
			h.watchOwn()
		}
	})
}

// Prove waits until a quorum has answered a heartbeat, sent after the call began, that
// proves that the session lives and the node exists. Its error wraps ErrDeleted if the node
// was deleted or overwritten. Contenders that call Prove at the same time share one heartbeat.
func (h *heartbeats) Prove(ctx context.Context, n *nodes.Node) error { return h.AskProof(n).Await(ctx) }

// A Proof is a heartbeat that a contender has asked for.
type Proof struct {
	of    *heartbeats
	asked *proofRequest
}

// AskProof is Prove for a caller that sends other requests before it waits for the answer. It calls Await or Drop.
func (h *heartbeats) AskProof(n *nodes.Node) *Proof {
	p := &Proof{h, h.schedule.ask(n)}
	h.alarm.Ring()
	return p
}

// Drop records that no caller waits for the answer.
func (p *Proof) Drop() { p.asked.gone.Store(true) }

// Await waits for the answer, and returns what Prove returns.
func (p *Proof) Await(ctx context.Context) error {
	_, err := p.AwaitUntil(ctx, nil)
	return err
}

// AwaitUntil is Await for a caller that waits no longer than until a receive from limit succeeds. It then returns false, and
// the caller calls one of the methods again.
func (p *Proof) AwaitUntil(ctx context.Context, limit <-chan time.Time) (answered bool, err error) {
	h, n := p.of, p.asked.node
	select {
	case <-p.asked.answered:
		if p.asked.err != nil {
			return true, h.Fail("check", n.Path, p.asked.err)
		}
		return true, nil
	case <-limit:
		return false, nil
	case <-n.Lost():
		err = sentinel.ErrDeleted
	case <-h.ctx.Done():
		err = h.Ended()
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.Drop()
	return true, h.Fail("check", n.Path, err)
}

// watchOwn watches the granted nodes, because heartbeats may take long to check them all. If a
// node is already missing, what was granted on it ends, as after a later deletion.
func (h *heartbeats) watchOwn() {
	// An error means that the session is over.
	_ = Each(h, h.Nodes.Unwatched(), func(p *nodes.Node) {
		_, err := h.deletions.WatchOwn(h.ctx, p)
		if err != nil {
			h.Nodes.Unwatch(p)
		}
		if errors.Is(err, zk.ErrNoNode) {
			h.deletions.MarkLost(p)
		}
	})
}

// Check sends one quorum write that changes nothing. It succeeds if the session is alive
// and all of checked exist; its success is a proof. It takes no turn.
func (h *heartbeats) Check(conn *zk.Conn, checked []*nodes.Node) error {
	return h.check(checked, func(ops []any) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
}

// CheckGrouped is Check for the holder of a node, in a transaction with the writes of other callers. It repeats the check until a
// server has answered it, and returns no later than ctx ends.
func (h *heartbeats) CheckGrouped(ctx context.Context, n *nodes.Node) error {
	_, err := repeat(ctx, h.sender, "check", n.Path, func() (struct{}, error) {
		return struct{}{}, h.check([]*nodes.Node{n}, func(ops []any) ([]zk.MultiResponse, error) {
			return h.WriteApart(ctx, Holder, &Write{Operations: func() []any { return ops }})
		})
	})
	return err
}

// check is Check for a function that sends the operations.
func (h *heartbeats) check(checked []*nodes.Node, send func(ops []any) ([]zk.MultiResponse, error)) error {
	if len(checked) == 0 {
		// The leader carries out an empty transaction without checking the session.
		return errReleased
	}
	for {
		err := h.checkVersions(checked, send)
		if !errors.Is(err, errRewritten) {
			return err
		}
	}
}

// errRewritten reports that the session itself had written a node since its version was read.
var errRewritten = errors.New("node rewritten during the check")

// checkVersions is one attempt of check.
func (h *heartbeats) checkVersions(checked []*nodes.Node, send func(ops []any) ([]zk.MultiResponse, error)) error {
	ops := make([]any, len(checked))
	for i, p := range checked {
		ops[i] = &zk.CheckVersionRequest{Path: p.Path, Version: p.Version()}
	}
	results, err := send(ops)
	// As in repeat: such an answer says nothing about the nodes, and the contenders that wait for the proof would fail with it.
	for odd := 0; unnamed(err) && odd < maxOdd && h.Ended() == nil; odd++ {
		results, err = send(ops)
	}
	if err == nil || errors.Is(err, zk.ErrSessionExpired) {
		return err
	}
	switch OutcomeOf(err) {
	case Unsent:
		return err
	case Unknown:
		return fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
	}
	for i, r := range results {
		if i < len(checked) && (errors.Is(r.Error, zk.ErrNoNode) || errors.Is(r.Error, zk.ErrBadVersion)) {
			return h.checkFailed(checked[i], r.Error)
		}
	}
	return err
}

// checkFailed ends what was granted on a node that a check found missing or overwritten.
// It returns the error of that check.
func (h *heartbeats) checkFailed(n *nodes.Node, err error) error {
	if !errors.Is(err, zk.ErrBadVersion) {
		if !h.deletions.MarkLost(n) {
			return errReleased
		}
		return h.Fail("check", n.Path, &LossError{Cause: sentinel.ErrDeleted, Err: err})
	}
	was, cause := h.deletions.MarkOverwritten(n)
	switch {
	case cause == nil:
		return errRewritten
	case !was:
		return errReleased
	}
	return h.Fail("check", n.Path, &LossError{cause, err})
}

// period returns the time from one heartbeat to the next.
func (h *heartbeats) period() time.Duration {
	if d := h.config.Heartbeat; d > 0 {
		return d
	}
	return h.Timeout() / 6
}

// interval returns the time from one heartbeat to the next, half a period while grants depend on a proof that was sent after
// a silence: the deadline counts the silence for as long as it is less than T/4 past, and would leave no time to ride out a
// fault that begins before the next heartbeat. T/48 allows for timers and for the resolution of package deadline.
func (h *heartbeats) interval(granted int) time.Duration {
	period := h.period()
	if granted > 0 && h.lease.Gap() > period+h.Timeout()/48 {
		return period / 2
	}
	return period
}

// Grant is Nodes.Grant, and makes the owner send heartbeats while something is granted: one that is due, T/48 from now at the
// earliest. The session was proved to live, and a claim that is released immediately needs no other proof.
func (h *heartbeats) Grant(n *nodes.Node, e nodes.Ender, now time.Time) error {
	if err := h.Nodes.Grant(n, e, now); err != nil {
		return err
	}
	_, granted := h.Nodes.Count()
	h.schedule.hasten(h.interval(granted)) // the last one may have been sent for a waiter
	h.alarm.By(later(now.Add(h.Timeout()/48), h.schedule.due()))
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
