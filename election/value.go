// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// MaxValue bounds the value of Proclaim, in bytes: each observer reads it after each change.
const MaxValue = 4096

// Proclaim publishes the value of this term, such as the address of the leader, in place of the
// one before: Observe yields the leader with it, and Leader returns it. The value is valid UTF-8
// and has at most MaxValue bytes. It ends with the term: observers do not see the value of a
// former leader.
//
// The value is written in one transaction with a check that the term lasts, to the node
// <path>-value, which stays when the election is over. So no leader overwrites the value of a
// later one, even if its process was paused. A call costs a read and a write.
//
// After recipes.ErrUncertain the value may have been published: the answer did not arrive until ctx
// was done or the term was lost, and then the error is recipes.ErrLost as well. After ErrLost alone
// it was not. Of concurrent calls, either value may be the last.
func (t *Term) Proclaim(ctx context.Context, value string) error {
	var err error
	switch {
	case len(value) > MaxValue:
		err = fmt.Errorf("value of %d bytes is over the limit of %d", len(value), MaxValue)
	case !utf8.ValidString(value):
		err = errors.New("value is not valid UTF-8")
	}
	if err != nil {
		return &recipes.Error{Op: "proclaim", Path: t.value.Path(), Err: err}
	}
	if err := t.publish(ctx, func(p *proclamation) { p.Value = value }); err != nil {
		return fmt.Errorf("proclaim: %w", err)
	}
	return nil
}

// Drain publishes that the leader prepares to resign: Leader.Draining is true for all observers
// until the term ends. The value of Proclaim stays. The term lasts until it is resigned or lost,
// as without Drain. Election.Ready returns ErrDraining from the call on, even if it fails. Errors
// and costs are Proclaim's.
func (t *Term) Drain(ctx context.Context) error {
	t.draining.Store(true)
	if err := t.publish(ctx, func(p *proclamation) { p.Draining = true }); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

// publish changes the proclamation of this term.
func (t *Term) publish(ctx context.Context, change func(*proclamation)) error {
	_, err := t.value.Update(ctx, t.Claim, func(p proclamation, _ bool) (*proclamation, error) {
		if p.Token != t.Token() {
			p = proclamation{Token: t.Token()}
		}
		change(&p)
		return &p, nil
	})
	return err
}

// withValue returns the leader with what it has published, and reports whether p is of this leader.
func (l Leader) withValue(p proclamation) (_ Leader, found bool) {
	if p.Token != l.Token {
		return l, false
	}
	l.Value, l.Draining = p.Value, p.Draining
	return l, true
}
