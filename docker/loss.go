// SPDX-License-Identifier: Apache-2.0

package docker

import "encoding/binary"

// loss is a reply to lose, whose request has not been sent yet.
type loss struct {
	match    func(frame []byte) bool
	happened chan struct{}
}

// awaited is a reply to lose, whose request was sent.
type awaited struct {
	loss      *loss
	handshake bool  // it is the first reply, which has no xid
	xid       int32 // of any other reply
}

func (a *awaited) isReply(frame []byte, first bool) bool {
	if a.handshake || first {
		return a.handshake && first
	}
	return len(frame) >= 4 && int32(binary.BigEndian.Uint32(frame)) == a.xid
}
