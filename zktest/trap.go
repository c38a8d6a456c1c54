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

// Sprung reports whether the trap has reached its frame.
func (t *Trap) Sprung() bool { return t.sprung.Load() }

// cutKind is the effect of a trap on a frame.
type cutKind int

const (
	noCut     cutKind = iota
	cutAfter          // the frame is carried out, and the connection ends before its reply is sent
	cutBefore         // the connection ends, and the frame is not carried out
)

// traps are the traps of one link, or of the ensemble.
type traps struct{ set []*Trap }

func (t *traps) add(n int, after bool) *Trap {
	trap := &Trap{left: n, after: after}
	t.set = append(t.set, trap)
	return trap
}

// step counts one frame, and returns the effect of the traps that it springs.
func (t *traps) step() cutKind {
	found := noCut
	remaining := t.set[:0]
	for _, trap := range t.set {
		if trap.left--; trap.left > 0 {
			remaining = append(remaining, trap)
			continue
		}
		trap.sprung.Store(true)
		// If two traps spring at one frame, it is not carried out.
		if trap.after {
			found = max(found, cutAfter)
		} else {
			found = cutBefore
		}
	}
	clear(t.set[len(remaining):])
	t.set = remaining
	return found
}
