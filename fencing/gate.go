// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrStale is what errors.Is finds in a refusal by [Gate.Admit]: a newer token has been admitted. The sender has lost
// the lock and should stop; sending again does not help.
var ErrStale = errors.New("fencing: stale token")

// StaleError is the refusal of an older token. errors.Is(err, [ErrStale]) holds for it.
type StaleError struct {
	Token  Token // the refused token
	Newest Token // the newest token that the gate had admitted
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fencing: token %d is stale: %d has been admitted", e.Token, e.Newest)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// A Gate stands before a resource and admits no token older than the newest that it has admitted.
//
// The zero value is an empty gate, ready to use: its first valid token is admitted. All methods may be called
// concurrently. A Gate must not be copied after its first use. It guards what one lock path guards: put before the
// resources of two, it refuses rightful holders. It compares numbers and knows nothing of histories.
type Gate struct {
	newest atomic.Int64
}

// Admit returns nil if t is equal to or newer than every token admitted before, and makes t the newest. It refuses an
// older one with a [*StaleError], and an invalid one with an error that wraps [ErrInvalid]; a refusal changes nothing.
// It does not block.
//
// Calls take effect one at a time, in an order that agrees with real time: when Admit(t) has returned nil, every later
// Admit of an older token is refused. What the order of calls does not settle is the order of the writes that follow
// them: a caller that is paused between Admit and its write may write after a newer one. So a resource holds its own
// lock over both, as the example does. A write that fails after Admit leaves t the newest, which refuses nobody who
// still holds the lock.
func (g *Gate) Admit(t Token) error {
	if !t.Valid() {
		return fmt.Errorf("fencing: admit token %d: %w", int64(t), ErrInvalid)
	}
	for {
		newest := g.newest.Load()
		if int64(t) < newest {
			return &StaleError{Token: t, Newest: Token(newest)}
		}
		// A plain store could put t over a newer token that another caller has just raised, and so admit, later, what
		// is stale by then.
		if int64(t) == newest || g.newest.CompareAndSwap(newest, int64(t)) {
			return nil
		}
	}
}

// Newest returns the newest token admitted so far, or zero if there is none. With others calling Admit it is out of
// date when it returns: it is for reports and for storing with the data, under the resource's lock. To decide, call
// Admit.
func (g *Gate) Newest() Token { return Token(g.newest.Load()) }

// Reset makes newest the newest token, whatever it was; zero empties the gate. It refuses a negative one with an error
// that wraps [ErrInvalid], and then changes nothing.
//
// It is for two occasions. At a restart, before anything is admitted, the resource passes the token that it stored with
// its data, zero if it has none yet. And an operator whose ensemble was restored or wiped, and now grants lower tokens,
// opens the gate again. That is safe only once no client that was granted the lock in the earlier history can still write:
// such a token looks newer than those to come, and once admitted after the Reset, shuts them out again. The Reset is needed
// even if the gate refuses no token: the ensemble will grant numbers that an earlier holder has, too.
func (g *Gate) Reset(newest Token) error {
	if newest < 0 {
		return fmt.Errorf("fencing: reset gate to token %d: %w", int64(newest), ErrInvalid)
	}
	g.newest.Store(int64(newest))
	return nil
}
