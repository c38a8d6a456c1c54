// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// ErrNotLeading is returned by Ready when no term of the election lasts.
var ErrNotLeading = errors.New("not leading")

// ErrDraining is returned by Ready after Term.Drain.
var ErrDraining = errors.New("draining")

// Ready returns nil while a term of this Election lasts, its leader is not draining, and the
// client is ready. Otherwise its error is ErrNotLeading or ErrDraining with the path, or that
// of Client.Ready. It is meant for readiness probes of processes of which only the leader gets
// requests; others use Client.Ready. It does no I/O.
//
// The leader may lose its term immediately afterwards, and a proxy learns of it later than
// that: requests can reach a former leader, so what they write needs the token. A rolling
// update that waits until each new process is ready never ends, as one process is ready at a
// time: let it wait for another probe.
func (e *Election) Ready() error {
	if err := e.client.Ready(); err != nil {
		return err
	}
	fail := func(err error) error { return &recipes.Error{Op: "ready", Path: e.queue.Path(), Err: err} }
	switch term := e.newest.Load(); {
	case term == nil || term.Err() != nil:
		return fail(ErrNotLeading)
	case term.draining.Load():
		return fail(ErrDraining)
	}
	return nil
}

// setNewest records a term that was granted, of which one at a time lasts: a term that another
// call of Campaign was granted later is not replaced.
func (e *Election) setNewest(term *Term) {
	for {
		last := e.newest.Load()
		if last != nil && last.Err() == nil && last.Token() > term.Token() {
			return
		}
		if e.newest.CompareAndSwap(last, term) {
			return
		}
	}
}
