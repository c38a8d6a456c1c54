// SPDX-License-Identifier: Apache-2.0

package zktest

import "sync/atomic"

// A Trap ends a connection at a chosen frame: see Ensemble.CutBefore and
// Ensemble.CutAfter. It springs once. Safe for concurrent use.
type Trap struct {
	left   int  // frames until it springs; guarded by the ensemble's mu
	after  bool // the frame is carried out first
	sprung atomic.Bool
}

// Sprung says whether the frame has come.
func (t *Trap) Sprung() bool { return t.sprung.Load() }

// snare is what a trap does to a frame.
type snare int

const (
	pass      snare = iota
	cutAfter        // the frame is carried out, and the connection ends before a word of it
	cutBefore       // the connection ends, the frame is not carried out
)

// traps are those that were set in one place.
type traps struct{ set []*Trap }

func (t *traps) add(n int, after bool) *Trap {
	trap := &Trap{left: n, after: after}
	t.set = append(t.set, trap)
	return trap
}

// step counts one frame.
func (t *traps) step() snare {
	found := pass
	kept := t.set[:0]
	for _, trap := range t.set {
		if trap.left--; trap.left > 0 {
			kept = append(kept, trap)
			continue
		}
		trap.sprung.Store(true)
		// Of two on one frame the one wins after which it is not carried out.
		if trap.after {
			found = max(found, cutAfter)
		} else {
			found = cutBefore
		}
	}
	clear(t.set[len(kept):])
	t.set = kept
	return found
}
