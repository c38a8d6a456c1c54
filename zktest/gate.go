// SPDX-License-Identifier: Apache-2.0

package zktest

import "sync/atomic"

// A gate holds requests and replies until it opens.
type gate struct {
	open  atomic.Bool // set under the ensemble's mu
	conns []*conn     // the connection of each waiting request and reply; guarded by the ensemble's mu
}

// hold records that a request or reply of the connection waits. The caller holds the
// ensemble's mu.
func (g *gate) hold(c *conn) {
	if !g.open.Load() {
		g.conns = append(g.conns, c)
	}
}
