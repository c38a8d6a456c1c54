// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"strconv"
)

// parentMark begins the data of a queue's node that this library may write, and parentFormat all of what it writes.
const (
	parentMark   = "lockkeeper/"
	parentFormat = parentMark + "1"
)

// IsMarked reports whether a node that has these data is a queue of this library, which may write it.
func IsMarked(data []byte) bool { return bytes.HasPrefix(data, []byte(parentMark)) }

// ParentData returns the data of a queue's node with a hint, with none if it is 0. A hint is the czxid of a contender's node. It
// says that this contender was the first, holding the queue as a whole, and that it is gone: once true, that remains so.
func ParentData(hint int64) []byte {
	if hint == 0 {
		return []byte(parentFormat)
	}
	return strconv.AppendInt([]byte(parentFormat+" "), hint, 36)
}

// ParseHint returns the hint in the data of a queue's node, 0 if there is none.
func ParseHint(data []byte) int64 {
	text, found := bytes.CutPrefix(data, []byte(parentFormat+" "))
	if !found {
		return 0
	}
	hint, err := strconv.ParseInt(string(text), 36, 64)
	if err != nil || hint <= 0 || !bytes.Equal(ParentData(hint), data) {
		return 0
	}
	return hint
}

// LastNumber returns the number of the child of a queue's node that was created last, -1 if there was none. The arguments are of the node's
// Stat: Cversion counts creates and deletes, and NumChildren is their difference. Their sum, twice the creates, can exceed an int32.
func LastNumber(cversion, children int32) int32 {
	return int32((uint32(cversion)+uint32(children))/2) - 1 //nolint:gosec // half of it is an int32
}
