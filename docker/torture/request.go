// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bytes"
	"encoding/binary"
)

// requestsOf know the requests of a kind by their frames.
var requestsOf = map[string]func(frame []byte) bool{"join": isJoin, "release": isRelease, "heartbeat": isHeartbeat}

// Operations of ZooKeeper's protocol.
const (
	opCreate = 1
	opDelete = 2
	opCheck  = 13
	opMulti  = 14
)

// aboutPath says that a frame is a request for an operation on a node, whose path comes first. The beginning of a
// connection, which has no operation, may have any number in its place.
func aboutPath(frame []byte, op uint32) bool {
	return len(frame) > 12 && binary.BigEndian.Uint32(frame[4:]) == op && frame[12] == '/'
}

// isMulti says that a frame is a transaction that begins with an operation.
func isMulti(frame []byte, first uint32) bool {
	return len(frame) > 17 && binary.BigEndian.Uint32(frame[4:]) == opMulti && binary.BigEndian.Uint32(frame[8:]) == first &&
		int32(binary.BigEndian.Uint32(frame[13:])) == -1 // which every header of an operation ends with
}

// isJoin says that a request makes a contender's node: alone, by its flags, which come last, or with a mark on the parent.
func isJoin(frame []byte) bool {
	const ephemeral = 1
	return aboutPath(frame, opCreate) && frame[len(frame)-1]&ephemeral != 0 || isMulti(frame, opCreate)
}

// isRelease says that a request deletes a node. One that is only to be refused, behind what was not answered, has a name
// that is nobody's.
func isRelease(frame []byte) bool {
	const version = 4
	return aboutPath(frame, opDelete) && !bytes.HasSuffix(frame[:len(frame)-version], []byte("flush"))
}

// isHeartbeat says that a request is a transaction that only looks.
func isHeartbeat(frame []byte) bool { return isMulti(frame, opCheck) }
