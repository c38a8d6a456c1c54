// SPDX-License-Identifier: Apache-2.0

package session

import "time"

// A beatState is where a session's heartbeats stand. Guarded by Session.mu.
type beatState struct {
	inFlight bool          // it was not answered yet
	next     time.Time     // when the next one is due
	wanted   []*proofAsked // by contenders that wait for a quorum's answer
}

// A proofAsked is a contender that waits for a quorum's answer as to its node.
type proofAsked struct {
	node     *Node
	answered chan struct{} // closed when a heartbeat has covered the node
	err      error         // why none can; set before answered is closed
	gone     bool          // its caller has gone; guarded by Session.mu
}
