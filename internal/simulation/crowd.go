// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// crowdAbove is above the locks of a crowd.
const crowdAbove = "/crowd"

// crowdPath is where the i-th lock of a crowd is.
func crowdPath(i int) string { return fmt.Sprintf("%s/%03d", crowdAbove, i) }

// crowd has c0 take that many locks, which no other process asks for, and hold them until an instant: a session with more
// nodes than one heartbeat checks.
func crowd(c0 *Process, n int, until time.Time) *worker {
	w := &worker{process: c0, done: make(chan struct{})}
	c0.working.Go(func() {
		defer close(w.done)
		var all sync.WaitGroup
		defer all.Wait()
		for i := range n {
			all.Go(func() {
				if err := c0.do(Ask{How: "lock", Path: crowdPath(i), Hold: time.Until(until)}); err != nil && c0.ctx.Err() == nil {
					c0.world.failf("%s of the crowd: %w", crowdPath(i), err)
				}
			})
		}
	})
	return w
}

// deleteCrowd has an operator delete that many nodes of the process's crowd, which lie apart.
func (p *Process) deleteCrowd(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("simulation: %q nodes of a crowd is not 1 or more", text)
	}
	for i := range n {
		if err := p.deleteNode(crowdPath(i * p.world.opts.Crowd / n)); err != nil {
			return err
		}
	}
	return nil
}
