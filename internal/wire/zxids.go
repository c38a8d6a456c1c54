// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"slices"
)

// zxids are what one connection reports to the server about the history that its session has
// seen.
//
// The client would do so itself: it keeps the last zxid of a reply and sends it twice. In the
// handshake, a server that is behind it refuses the session. With the watches that the client
// sets again, the server sends the events of changes since then. But the client reads its zxid
// for the watches in one goroutine while another, which handles replies, may be writing it:
// a data race of go-zookeeper v1.0.4 (conn.go:614 and 849) that happens at reconnections with
// watches, and can lose the event of a change. So the wire hides the zxids of replies from the
// client, whose own stays 0, and fills in those two requests. The client uses zxids for nothing
// else.
type zxids struct {
	before  int64 // the highest of earlier connections
	watched int64 // up to which all events of the watches that are set again have come
	seen    int64 // the highest of a reply, before included
}

// next returns the zxids of the next connection. restored reports whether this connection's server had all watches of the
// session in the end: then all events up to the highest zxid have come.
func (z *zxids) next(restored bool) zxids {
	n := zxids{before: z.seen, watched: z.watched, seen: z.seen}
	if restored {
		n.watched = z.seen
	}
	return n
}

// Offsets of the zxid in packets that begin with their length.
const (
	zxidOfHandshake  = 4 + 4     // after the version of the protocol
	zxidOfSetWatches = 4 + 4 + 4 // after the xid and the operation
	zxidOfReply      = 4 + 4     // after the xid
)

// fill returns the packet with the zxid filled in, if its operation has one.
func (z *zxids) fill(p []byte, op int32, handshaken bool) []byte {
	at, zxid := zxidOfHandshake, z.before
	if handshaken {
		if op != opSetWatches {
			return p
		}
		at, zxid = zxidOfSetWatches, z.watched
	}
	if len(p) < at+8 {
		return p
	}
	p = slices.Clone(p) // a Writer must not change what it is given
	binary.BigEndian.PutUint64(p[at:], uint64(zxid))
	return p
}

// hide records and clears the zxid of a reply. p is the beginning of the reply.
func (z *zxids) hide(p []byte) {
	zxid := p[zxidOfReply : zxidOfReply+8]
	z.seen = max(z.seen, int64(binary.BigEndian.Uint64(zxid)))
	clear(zxid)
}
