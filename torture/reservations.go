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

// A hospital knows what is broken, so that no two faults are on the same thing in ways that exclude each other.
type hospital struct {
	mu   sync.Mutex        // guards kept
	kept map[string]health // of what is not well
}

type health int

const (
	broken health = iota
	recovering
)

// admit takes a thing, until it is discharged.
func (h *hospital) admit(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, here := h.kept[what]; here {
		return fmt.Errorf("%s: %w", what, errBusy)
	}
	if h.kept == nil {
		h.kept = map[string]health{}
	}
	h.kept[what] = broken
	return nil
}

// recovers notes that the fault on a thing was taken back, and that the thing is not yet what it was.
func (h *hospital) recovers(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, here := h.kept[what]; here {
		h.kept[what] = recovering
	}
}

// isBroken says whether there is a fault on one of some things.
func (h *hospital) isBroken(things []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(things, func(what string) bool {
		how, here := h.kept[what]
		return here && how == broken
	})
}

// isKept reports whether a fault is on a thing, or it recovers from one.
func (h *hospital) isKept(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, here := h.kept[what]
	return here
}

func (h *hospital) discharge(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.kept, what)
}

// admitted runs f, an injection, on a thing, which is discharged when what f did is taken back, or at once if f did nothing.
func (h *hospital) admitted(what string, f func() (heal, error)) (heal, error) {
	if err := h.admit(what); err != nil {
		return nil, err
	}
	back, err := f()
	if back == nil {
		h.discharge(what)
		return nil, err
	}
	return func(ctx context.Context) error {
		defer h.discharge(what)
		return back(ctx)
	}, err
}

// bed is a server's name in the hospital.
func (s *stage) bed(server Server) string { return fmt.Sprint("server ", s.number(server)) }

func (s *stage) beds() (all []string) {
	for _, server := range s.servers.All() {
		all = append(all, s.bed(server))
	}
	return all
}
