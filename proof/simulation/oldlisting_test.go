// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A handler whose read of its node is delayed concludes nothing from a listing that it made before. Meanwhile the contender
// ahead leaves, and another handler of the same request is granted the lease.
func TestHandlerWithOldListingDoesNotOverwriteGrant(t *testing.T) {
	for skip := range 3 {
		s := Scenario{"a handler's read is delayed", func(w *World) { handOverDuringRead(w, skip) }}
		runs.instants.Add(1)
		runAndCheck(t, fmt.Sprintf("read %d is delayed", skip), "-run "+t.Name(), func() ([]history.Event, error) {
			events, _, err := s.Run(Variants[0], Cut{})
			return events, err
		})
	}
}

// handOverDuringRead has x release the lease while replica b waits for the answer to a read, the one after skip others. Both
// replicas serve the request of y.
func handOverDuringRead(w *World, skip int) {
	p := w.startReplicas("a", "b")
	x := w.caller("x").acquire(Call{Replicas: all("a")})
	read := p["b"].link.Intercept(zktest.Rule{Op: "getData", Below: lockPath, Skip: skip, Times: 1, Hold: zktest.ToServer})
	w.calling.Go(func() {
		w.hold("y", Call{Replicas: all("a", "b"), Wait: 5 * w.fraction(1), Duplicate: w.fraction(16)}, w.fraction(4))
	})
	time.Sleep(w.fraction(8))
	x.giveUp(true, 0)
	time.Sleep(w.fraction(16))
	read.Remove()
	w.calling.Wait()
	w.drain()
}
