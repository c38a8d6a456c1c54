// SPDX-License-Identifier: Apache-2.0

package zktest

import "time"

// A Direction is a direction of frames on a connection.
type Direction int

// The directions in which a connection can be held silent.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// String returns the direction as Apply takes it.
func (d Direction) String() string {
	switch d {
	case ToServer:
		return "to-server"
	case ToClient:
		return "to-client"
	case Both:
		return "both"
	}
	return "no direction"
}

// impairment is a network impairment between clients and servers. It is guarded by the
// ensemble's mu.
type impairment struct {
	held   Direction
	delay  time.Duration
	refuse bool
}

// A partition is what of the network a server cannot reach.
type partition int

const (
	none      partition = iota
	fromPeers           // the other servers
	fromAll             // the other servers and the clients
)
