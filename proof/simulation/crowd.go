// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// crowd has c0 hold n locks, which no other process requests, until an instant. Its session then has more nodes than one
// heartbeat checks.
func crowd(c0 *Process, n int, until time.Time) *worker {
	w := &worker{process: c0, done: make(chan struct{})}
	c0.working.Go(func() {
		defer close(w.done)
		var all sync.WaitGroup
		defer all.Wait()
		for i := range n {
			all.Go(func() {
				if err := c0.do(Operation{Kind: "lock", Path: crowdPath(i), Hold: time.Until(until)}); err != nil && c0.ctx.Err() == nil {
					c0.world.problemf("lock %s of the crowd: %w", crowdPath(i), err)
				}
			})
		}
	})
	return w
}

// deleteCrowd has an operator delete that many nodes of the process's crowd, evenly spaced.
func (p *Process) deleteCrowd(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("delete-crowd %s: want a number of nodes, 1 or more", text)
	}
	for i := range n {
		if err := p.deleteNode(crowdPath(i * p.world.opts.Crowd / n)); err != nil {
			return err
		}
	}
	return nil
}
