// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bytes"
	"encoding/binary"
)

// requestsOf recognises the requests of each kind by their frames.
var requestsOf = map[string]func(frame []byte) bool{"join": isJoin, "release": isRelease, "heartbeat": isHeartbeat}

// Operations of ZooKeeper's protocol.
const (
	opCreate = 1
	opDelete = 2
	opCheck  = 13
	opMulti  = 14
)

// aboutPath reports whether a frame is a request for an operation on a node, whose path comes first. The first frame of a
// connection has no operation, and may have any number in its place.
func aboutPath(frame []byte, op uint32) bool {
	return len(frame) > 12 && binary.BigEndian.Uint32(frame[4:]) == op && frame[12] == '/'
}

// transaction returns the first operation of a transaction that is not a check, or opCheck if it has only checks. Other frames,
// and truncated ones, have none.
func transaction(frame []byte) (op uint32, is bool) {
	const header, version = 9, 4 // bytes: of each operation, and of a check behind its path
	if len(frame) < 8 || binary.BigEndian.Uint32(frame[4:]) != opMulti {
		return 0, false
	}
	for rest := frame[8:]; len(rest) >= header; {
		op, done := binary.BigEndian.Uint32(rest), rest[4] != 0
		if int32(binary.BigEndian.Uint32(rest[5:])) != -1 { // which every header ends with
			return 0, false
		}
		switch {
		case done:
			return opCheck, true
		case op != opCheck:
			return op, true
		}
		if rest = rest[header:]; len(rest) < 4 {
			return 0, false
		}
		path := uint64(binary.BigEndian.Uint32(rest))
		if uint64(len(rest)) < 4+path+version {
			return 0, false
		}
		rest = rest[4+path+version:]
	}
	return 0, false
}

// isTransaction reports whether a frame is a transaction with such an operation: see transaction.
func isTransaction(frame []byte, op uint32) bool {
	of, is := transaction(frame)
	return is && of == op
}

// isJoin reports whether a request creates a contender's node: alone, as its flags at the end show, or in a transaction, which
// may begin with a check of another node of the session.
func isJoin(frame []byte) bool {
	const ephemeral = 1
	return aboutPath(frame, opCreate) && frame[len(frame)-1]&ephemeral != 0 || isTransaction(frame, opCreate)
}

// isRelease reports whether a request deletes a node. A delete that only flushes the connection, after unanswered requests, names
// a node that never exists.
func isRelease(frame []byte) bool {
	const version = 4
	return aboutPath(frame, opDelete) && !bytes.HasSuffix(frame[:len(frame)-version], []byte("flush"))
}

// isHeartbeat reports whether a request is a transaction that only checks.
func isHeartbeat(frame []byte) bool { return isTransaction(frame, opCheck) }
