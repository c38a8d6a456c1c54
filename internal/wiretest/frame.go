// SPDX-License-Identifier: Apache-2.0

// Package wiretest writes and reads the frames of ZooKeeper's protocol.
package wiretest

import (
	"encoding/binary"
	"io"
	"time"
)

// Operations of the protocol.
const (
	Create      = 1
	Delete      = 2
	Exists      = 3
	GetData     = 4
	SetData     = 5
	Ping        = 11
	GetChildren = 12
	Check       = 13
	Multi       = 14
	Container   = 19
)

// Codes of errors.
const (
	NoNode     = -101
	NoAuth     = -102
	BadVersion = -103
	NodeExists = -110
	Expired    = -112
	Throttled  = -127
	Undone     = -2 // an operation of a transaction that another one failed
)

// Timeout is a session timeout of which T/6, T/8, T/12 and T/24 are round.
const Timeout = 12 * time.Second

// Read reads one frame, and returns it without its length.
func Read(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	packet := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(r, packet)
	return packet, err
}

// Framed returns the packet preceded by its length.
func Framed(packet []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)
}

// Reply returns the frame of a reply. Where code is not 0 it has no body.
func Reply(xid int32, zxid int64, code int32, body []byte) []byte {
	packet := binary.BigEndian.AppendUint32(nil, uint32(xid))
	packet = binary.BigEndian.AppendUint64(packet, uint64(zxid))
	packet = binary.BigEndian.AppendUint32(packet, uint32(code))
	if code != 0 {
		body = nil
	}
	return Framed(append(packet, body...))
}

// Types of events.
const (
	Created         = 1
	Deleted         = 2
	DataChanged     = 3
	ChildrenChanged = 4
)

// Event returns the frame of an event of the node at path.
func Event(kind int32, path string) []byte {
	packet := binary.BigEndian.AppendUint32(nil, 1<<32-1) // the xid of events
	packet = binary.BigEndian.AppendUint64(packet, 1<<64-1)
	packet = binary.BigEndian.AppendUint32(packet, 0)
	packet = binary.BigEndian.AppendUint32(packet, uint32(kind))
	packet = binary.BigEndian.AppendUint32(packet, 3) // connected
	return Framed(AppendString(packet, path))
}

// Hello returns the answer to a handshake, as servers since 3.4 give it.
func Hello(timeout time.Duration, session int64) []byte {
	packet := binary.BigEndian.AppendUint32(nil, 0)
	packet = binary.BigEndian.AppendUint32(packet, uint32(timeout.Milliseconds()))
	packet = binary.BigEndian.AppendUint64(packet, uint64(session))
	packet = AppendString(packet, "0123456789abcdef")
	return Framed(append(packet, 0)) // not read-only
}

// AppendString appends s preceded by its length.
func AppendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
