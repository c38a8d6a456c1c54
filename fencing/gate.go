// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrStale matches, with errors.Is, the error by which [Gate.Admit] refuses an older token: a newer token has been admitted.
// The sender has lost the lock and should stop; retrying does not help.
var ErrStale = errors.New("fencing: stale token")

// StaleError is the error by which a gate refuses an older token. errors.Is(err, [ErrStale]) holds for it.
type StaleError struct {
	Token  Token // the refused token
	Newest Token // the newest token that the gate had admitted
}

// Error names both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fencing: token %d is stale: %d has been admitted", e.Token, e.Newest)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// A Gate protects a resource: it admits no token older than the newest that it has admitted.
//
// The zero value is an empty gate, ready to use: it admits any valid token first. All methods may be called concurrently. A
// Gate must not be copied after its first use. It guards one lock path: a gate shared by the resources of two paths refuses
// rightful holders. It compares numbers and stores no history.
type Gate struct {
	newest atomic.Int64
}

// Admit returns nil if t is equal to or newer than every token admitted before, and makes t the newest. It refuses an older
// token with a [*StaleError], and an invalid one with an error that wraps [ErrInvalid]; a refusal changes nothing. Admit
// does not block.
//
// Calls take effect one at a time, in an order that agrees with real time: when Admit(t) has returned nil, every later Admit
// of an older token is refused. The order of calls does not determine the order of the writes that follow them: a caller
// that is paused between Admit and its write may write after a newer one. A resource therefore holds its own lock over both,
// as the example does. If a write fails after Admit, t remains the newest token; no client that still holds the lock is
// refused for that.
func (g *Gate) Admit(t Token) error {
	if !t.Valid() {
		return fmt.Errorf("fencing: admit token %d: %w", int64(t), ErrInvalid)
	}
	for {
		newest := g.newest.Load()
		if int64(t) < newest {
			return &StaleError{Token: t, Newest: Token(newest)}
		}
		// A plain store could overwrite a newer token that another caller has just stored; Admit would then accept stale
		// tokens.
		if int64(t) == newest || g.newest.CompareAndSwap(newest, int64(t)) {
			return nil
		}
	}
}

// AdmitShared is Admit for the token of a shared hold, such as a reader's: it returns nil if t is equal to or newer than
// every token that Admit has admitted. It changes nothing, so that the holders of one time, whose tokens differ, do not
// refuse each other. A write under a later exclusive hold makes the gate refuse t.
//
// An admitted shared token does not make the gate refuse older exclusive ones. A writer that lost the lock without
// knowing it can still write while readers hold it, until the next writer has written. Readers that must not see such a
// write compare what they read with its token.
func (g *Gate) AdmitShared(t Token) error {
	if !t.Valid() {
		return fmt.Errorf("fencing: admit shared token %d: %w", int64(t), ErrInvalid)
	}
	if newest := g.newest.Load(); int64(t) < newest {
		return &StaleError{Token: t, Newest: Token(newest)}
	}
	return nil
}

// Newest returns the newest token admitted so far, or zero if there is none. If other goroutines call Admit, the result is
// out of date when it returns. Use it for reports, and for storing the token with the data under the resource's lock. To
// decide, call Admit.
func (g *Gate) Newest() Token { return Token(g.newest.Load()) }

// Reset makes newest the newest token, whatever it was; zero empties the gate. It refuses a negative token with an error
// that wraps [ErrInvalid], and changes nothing in that case.
//
// Reset has two uses. After a restart, before the first Admit, the resource passes the token that it stored with its data,
// or zero if it has stored none. And an operator resets the gate when the ensemble was restored or wiped and now grants
// lower tokens. That is safe only once no client that was granted the lock in the earlier history can still write: such a
// token looks newer than those to come, and once admitted after the Reset, it makes the gate refuse them again. The Reset is
// needed even if the gate refuses no token: the ensemble will grant numbers that an earlier holder has, too.
func (g *Gate) Reset(newest Token) error {
	if newest < 0 {
		return fmt.Errorf("fencing: reset gate to token %d: %w", int64(newest), ErrInvalid)
	}
	g.newest.Store(int64(newest))
	return nil
}
