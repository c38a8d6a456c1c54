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

// errBusy says that what a fault was to hit is broken already in a way that excludes it.
var errBusy = errors.New("another fault is on it")

// A reservations knows what is broken, so that no two faults are on the same thing in ways that exclude each other.
type reservations struct {
	mu     sync.Mutex        // guards kept
	states map[string]health // of what is not well
}

type health int

const (
	broken health = iota
	recovering
)

// reserve takes a thing, until it is discharged.
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

// recovers notes that the fault on a thing was taken back, and that the thing is not yet what it was.
func (r *reservations) recovers(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, here := r.states[what]; here {
		r.states[what] = recovering
	}
}

// isBroken says whether there is a fault on one of some things.
func (r *reservations) isBroken(targets []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(targets, func(what string) bool {
		how, here := r.states[what]
		return here && how == broken
	})
}

// isReserved reports whether a fault is on a thing, or it recovers from one.
func (r *reservations) isReserved(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, here := r.states[what]
	return here
}

func (r *reservations) release(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, what)
}

// reserved runs f, an injection, on a thing, which is discharged when what f did is taken back, or at once if f did nothing.
func (r *reservations) reserved(what string, f func() (heal, error)) (heal, error) {
	if err := r.reserve(what); err != nil {
		return nil, err
	}
	back, err := f()
	if back == nil {
		r.release(what)
		return nil, err
	}
	return func(ctx context.Context) error {
		defer r.release(what)
		return back(ctx)
	}, err
}

// serverTarget is a server's name in the hospital.
func (r *run) serverTarget(server Server) string { return fmt.Sprint("server ", r.number(server)) }

func (r *run) serverTargets() (all []string) {
	for _, server := range r.servers.All() {
		all = append(all, r.serverTarget(server))
	}
	return all
}
