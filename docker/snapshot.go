// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"maps"
	"slices"
	"strings"
	"time"
)

// plantedZxid is the last transaction of a planted tree. It is of epoch 0, so that all
// transactions of an ensemble come after it.
const plantedZxid = 1

// snapshotName is the name of the file in a server's version-2 folder.
var snapshotName = fmt.Sprintf("snapshot.%x", plantedZxid)

// snapshot returns a ZooKeeper snapshot file of a tree in which the paths exist with the
// given counters. The counter is the number of children ever created, the persisted
// cversion, which no request can set: two billion creates would take a day.
//
// The format, all big-endian and all strings preceded by their length: the file's
// header; sessions (none); access lists (none, for the open one is -1); the
// nodes, parents first; "/" for their end; the Adler-32 of all this; "/".
func snapshot(counters map[string]int32) []byte {
	nodes := map[string]int32{"": 0, "/zookeeper": 2, "/zookeeper/config": 0, "/zookeeper/quota": 0}
	for path, counter := range counters {
		for at := range path {
			if path[at] == '/' {
				nodes[path[:at]] += 0
			}
		}
		nodes[path] = counter
	}
	now := time.Now().UnixMilli()
	b := []byte("ZKSN")
	b = binary.BigEndian.AppendUint32(b, 2)          // version
	b = binary.BigEndian.AppendUint64(b, ^uint64(0)) // id of the database
	b = binary.BigEndian.AppendUint32(b, 0)          // sessions
	b = binary.BigEndian.AppendUint32(b, 0)          // access lists
	for _, path := range slices.SortedFunc(maps.Keys(nodes), strings.Compare) {
		b = appendString(b, path)
		b = appendString(b, "")                           // data
		b = binary.BigEndian.AppendUint64(b, ^uint64(0))  // access list
		b = binary.BigEndian.AppendUint64(b, plantedZxid) // czxid
		b = binary.BigEndian.AppendUint64(b, plantedZxid) // mzxid
		b = binary.BigEndian.AppendUint64(b, uint64(now)) // ctime
		b = binary.BigEndian.AppendUint64(b, uint64(now)) // mtime
		b = binary.BigEndian.AppendUint32(b, 0)           // version
		b = binary.BigEndian.AppendUint32(b, uint32(nodes[path]))
		b = binary.BigEndian.AppendUint32(b, 0)           // version of the access list
		b = binary.BigEndian.AppendUint64(b, 0)           // owning session
		b = binary.BigEndian.AppendUint64(b, plantedZxid) // pzxid
	}
	b = appendString(b, "/")
	b = binary.BigEndian.AppendUint64(b, uint64(adler32.Checksum(b)))
	return appendString(b, "/")
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}
