// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// ErrNotCandidate is returned by Term.HandOver when no candidate in the queue has the owner label.
var ErrNotCandidate = errors.New("not a candidate")

// ErrHandedOver is the cause with which Run cancels the work's context after Term.HandOver.
var ErrHandedOver = errors.New("term is handed over")

// ErrOtherLeader is returned by HandOver.Wait when another candidate than the target is the first.
var ErrOtherLeader = errors.New("another candidate than the target is the first in the queue")

// request returns the request of the last hand-over, the zero value if there is none. A node that
// cannot be read, or has other data, names no target: an election must not depend on it.
func (e *Election) request(ctx context.Context) (request, error) {
	r, err := e.handover.Read(ctx)
	if ctx.Err() == nil {
		err = nil
	}
	return r, err
}

// A HandOver is the request of a leader that a certain candidate leads next.
type HandOver struct {
	Target Leader // as HandOver has found it in the queue

	election *Election
}

// HandOver names the candidate that is to lead after this term, by its owner label. Of several candidates
// with the label, it is the first in the queue.
//
// The term lasts until it is resigned or lost. Under Run, HandOver cancels the work's context
// with ErrHandedOver as the cause; Run waits for the work, resigns, and campaigns again after the
// cool-down. After Campaign, stop the work and call Resign. [HandOver.Wait] returns who leads then.
//
// When the term has ended, each candidate ahead of the target that could lead yields: it
// deletes its node, and joins again at the end of the queue. So terms are granted in the order of
// the candidates' nodes, as without a hand-over, and the target leads when it is the first. What
// is promised is:
//
//   - Candidates of this version yield once each, and lead after the target and the candidates
//     behind it, in the order in which they join again. That can differ from their former order: the
//     next one yields as soon as the node of the one before is deleted. Each costs a delete and a
//     join.
//   - Candidates of other libraries and of older versions do not yield: those ahead of the target
//     lead before it, as in any election. The candidates after them yield.
//   - A target that has left the queue has no effect: the next candidate leads. One that loses its
//     session and joins again has left.
//   - A target that is paused or dead, and a candidate ahead of it that is, keeps the others waiting
//     no longer than any candidate that is the first: until its session expires.
//
// The request is written in one transaction with a check that the term lasts, so that no former
// leader can make candidates yield. It is stored in the node <path>-handover, which stays when
// the election is over, until another hand-over replaces it. A call reads each candidate's node.
//
// The error is ErrNotCandidate, with the label, if the server that this client is connected to shows no
// such candidate besides the leader; recipes.ErrLost if the term has ended; or that with which a
// server refused. Then nothing was changed. After recipes.ErrUncertain, which may be ErrLost as well, the
// request may have been stored: its work is not stopped, and the candidates may yield when the term
// ends. Another call replaces the request.
func (t *Term) HandOver(ctx context.Context, owner string) (*HandOver, error) {
	e := t.election
	target, err := t.candidate(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("hand over: %w", err)
	}
	_, err = e.handover.Update(ctx, t.Claim, func(request, bool) (*request, error) {
		return &request{Token: t.Token(), Target: target.Name, Owner: owner}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("hand over: %w", err)
	}
	if stop := t.stop.Load(); stop != nil {
		(*stop)(ErrHandedOver)
	}
	return &HandOver{Target: leaderOf(target), election: e}, nil
}

// candidate returns the first candidate with the owner label behind the leader.
func (t *Term) candidate(ctx context.Context, owner string) (recipes.Contender, error) {
	if err := t.Err(); err != nil {
		return recipes.Contender{}, err
	}
	candidates, err := t.queue.Contenders(ctx)
	if err != nil {
		return recipes.Contender{}, err
	}
	for _, c := range candidates {
		if c.Owner == owner && c.Token > t.Token() {
			return c, nil
		}
	}
	return recipes.Contender{}, &recipes.Error{Op: "find candidate", Path: t.queue.Path(), Err: fmt.Errorf("%w: %q", ErrNotCandidate, owner)}
}

// Wait waits until the target is the first in the queue, and returns it: it leads, or is about to
// learn that it does. Work that Run runs must not wait for this, as its term lasts until it has
// returned.
//
// Otherwise the error is ErrOtherLeader, with the leader's label, and Wait returns the candidate that is
// the first, the zero value if there is none. If that candidate is behind the target, Wait returns
// immediately: the target has left, or has led and resigned. If it is ahead of the target, Wait
// returns when ctx is done: the term may not have ended, the candidate may be about to yield, or
// it does not yield, as it is of another library or of an older version.
//
// It shows the election as seen by the server that the client is connected to.
func (h *HandOver) Wait(ctx context.Context) (Leader, error) {
	e := h.election
	var first Leader
	fail := func(err error) (Leader, error) {
		return first, &recipes.Error{Op: "wait for hand-over", Path: e.queue.Path(), Err: err}
	}
	for {
		front, err := e.queue.Front(ctx)
		if err != nil && ctx != nil && ctx.Err() != nil {
			return fail(fmt.Errorf("%w: %q: %w", ErrOtherLeader, first.Owner, err))
		}
		if err != nil {
			return fail(err)
		}
		first = Leader{}
		if !front.Empty {
			first = leaderOf(front.Contender)
		}
		switch {
		case first.Token == h.Target.Token:
			return first, nil
		case front.Empty, first.Token > h.Target.Token:
			return fail(fmt.Errorf("%w: %q has left the queue, and %q is the first", ErrOtherLeader, h.Target.Owner, first.Owner))
		}
		select {
		case <-front.Changed:
		case <-ctx.Done():
			return fail(fmt.Errorf("%w: %q: %w", ErrOtherLeader, first.Owner, ctxerr.Ended(ctx)))
		}
	}
}
