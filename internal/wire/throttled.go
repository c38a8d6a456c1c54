// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// Codes of errors in replies.
const (
	codeThrottled = 1<<32 - 127 // ThrottledOp: the server is overloaded, and has carried out nothing
	codeAPIError  = 1<<32 - 100 // no server sends it: it separates ZooKeeper's two ranges of codes
)

// nameThrottled turns the error of an overloaded server, for which the ZooKeeper client has no name, into zk.ErrAPIError. head is the
// beginning of a reply.
func nameThrottled(head []byte) {
	if binary.BigEndian.Uint32(head[codeOfReply:]) == codeThrottled {
		binary.BigEndian.PutUint32(head[codeOfReply:], codeAPIError)
	}
}
