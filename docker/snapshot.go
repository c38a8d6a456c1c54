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

// snapshotZxid is the last transaction of a prepared tree. It belongs to epoch 0, so that every
// transaction of the ensemble follows it.
const snapshotZxid = 1

// snapshotName is the name of the file, in a server's folder version-2.
var snapshotName = fmt.Sprintf("snapshot.%x", snapshotZxid)

// snapshot returns a ZooKeeper snapshot file of a tree in which the paths exist with the given
// counters. A counter is the number of children ever created, the persisted cversion. No
// request can set it, and two billion creates would take a day.
//
// The format, all big-endian and all strings preceded by their length: the file's
// header; sessions (none); access lists (none, for the open one is -1); the
// nodes, parents first; "/" for their end; the Adler-32 of all that; "/".
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
		b = appendString(b, "")                            // data
		b = binary.BigEndian.AppendUint64(b, ^uint64(0))   // access list
		b = binary.BigEndian.AppendUint64(b, snapshotZxid) // czxid
		b = binary.BigEndian.AppendUint64(b, snapshotZxid) // mzxid
		b = binary.BigEndian.AppendUint64(b, uint64(now))  // ctime
		b = binary.BigEndian.AppendUint64(b, uint64(now))  // mtime
		b = binary.BigEndian.AppendUint32(b, 0)            // version
		b = binary.BigEndian.AppendUint32(b, uint32(nodes[path]))
		b = binary.BigEndian.AppendUint32(b, 0)            // version of the access list
		b = binary.BigEndian.AppendUint64(b, 0)            // owning session
		b = binary.BigEndian.AppendUint64(b, snapshotZxid) // pzxid
	}
	b = appendString(b, "/")
	b = binary.BigEndian.AppendUint64(b, uint64(adler32.Checksum(b)))
	return appendString(b, "/")
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}
