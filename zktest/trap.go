// SPDX-License-Identifier: Apache-2.0

package zktest

import "sync/atomic"

// A Trap ends a connection at a chosen frame: see Ensemble.LoseRequest and
// Ensemble.LoseReply. It springs once. Safe for concurrent use.
type Trap struct {
	left   int  // frames until it springs; guarded by the ensemble's mu
	after  bool // the frame is carried out first
	sprung atomic.Bool
}

// Sprung reports whether the trap has reached its frame.
func (t *Trap) Sprung() bool { return t.sprung.Load() }

// loss is the effect of a trap on a frame.
type loss int

const (
	nothing     loss = iota
	lostReply        // the frame is carried out, and the connection ends before its reply is sent
	lostRequest      // the connection ends, and the frame is not carried out
)

// traps are the traps of one link, or of the ensemble.
type traps struct{ set []*Trap }

func (t *traps) add(n int, after bool) *Trap {
	trap := &Trap{left: n, after: after}
	t.set = append(t.set, trap)
	return trap
}

// step counts one frame, and returns the effect of the traps that it springs.
func (t *traps) step() loss {
	found := nothing
	remaining := t.set[:0]
	for _, trap := range t.set {
		if trap.left--; trap.left > 0 {
			remaining = append(remaining, trap)
			continue
		}
		trap.sprung.Store(true)
		// If two traps spring at one frame, it is not carried out.
		if trap.after {
			found = max(found, lostReply)
		} else {
			found = lostRequest
		}
	}
	clear(t.set[len(remaining):])
	t.set = remaining
	return found
}
