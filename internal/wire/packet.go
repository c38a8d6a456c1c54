// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// Numbers of the ZooKeeper protocol that a wire looks for.
const (
	opExists       = 3
	opGetData      = 4
	opGetChildren  = 12
	opTransaction  = 14
	opSetAuth      = 100
	opSetWatches   = 101
	opSASL         = 102
	opClose        = -11
	xidWatchEvent  = -1
	maxHelloLength = 256       // a connect reply has 36 or 37 bytes
	bodyOfRequest  = 4 + 4 + 4 // where it begins, after the length, the xid and the operation

	sessionOfHandshake = 4 + 4 + 8 + 4 // where it is, after the length, the version, the zxid and the timeout
	sessionOfHello     = 4 + 4 + 4     // likewise, after the length, the version and the timeout
)

// quorumWrites are the operations that a server carries out only through the
// quorum, and only for a session that the quorum takes to be alive.
var quorumWrites = []int32{
	1, // create
	2, // delete
	5, // setData
	7, // setACL
	opTransaction,
	15, // create2
	19, // createContainer
	21, // createTTL
}

// A packet is a request in flight.
type packet struct {
	sent    time.Time
	xid     int32  // names it in its reply; 0: the handshake
	op      int32  // 0: the handshake
	watched string // path of the node that it watches; "": none
	again   []byte // the packet, if it sets watches again
}
