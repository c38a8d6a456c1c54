// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// errBusy reports that the target of a fault already has a fault that excludes it.
var errBusy = errors.New("another fault is in progress there")

// reservations records which targets have a fault in progress, so that no two faults that exclude each other hit the same
// target.
type reservations struct {
	mu     sync.Mutex        // guards states
	states map[string]health // of the reserved targets
}

// A health is the state of a reserved target.
type health int

const (
	broken     health = iota // a fault is in progress
	recovering               // the fault is healed
)

// reserve reserves a target until release. It returns errBusy if the target is reserved already.
func (r *reservations) reserve(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, here := r.states[what]; here {
		return fmt.Errorf("%s: %w", what, errBusy)
	}
	if r.states == nil {
		r.states = map[string]health{}
	}
	r.states[what] = broken
	return nil
}

// recovers records that the fault on a target was healed, and that the target has not yet recovered.
func (r *reservations) recovers(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, here := r.states[what]; here {
		r.states[what] = recovering
	}
}

// isBroken reports whether one of the targets has a fault that is not healed.
func (r *reservations) isBroken(targets []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(targets, func(what string) bool {
		how, here := r.states[what]
		return here && how == broken
	})
}

// isReserved reports whether a target has a fault or is recovering from one.
func (r *reservations) isReserved(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, here := r.states[what]
	return here
}

// release ends the reservation of a target.
func (r *reservations) release(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, what)
}

// reserved runs the injection f with a target reserved. The reservation ends when the fault is healed, or when f returns no
// heal function.
func (r *reservations) reserved(what string, f func() (heal, error)) (heal, error) {
	if err := r.reserve(what); err != nil {
		return nil, err
	}
	undo, err := f()
	if undo == nil {
		r.release(what)
		return nil, err
	}
	return func(ctx context.Context) error {
		defer r.release(what)
		return undo(ctx)
	}, err
}
