// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Frames as the ZooKeeper client sends them.
func frameOf(op uint32, rest ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 7}, op), rest...)
}

func bytesOf(p string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)
}

func multiOf(first byte, rest ...byte) []byte {
	return frameOf(opMulti, append([]byte{0, 0, 0, first, 0, 0xff, 0xff, 0xff, 0xff}, rest...)...)
}

var (
	create      = frameOf(opCreate, append(bytesOf("/torture/a/x-lock-"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3)...)
	makeParent  = frameOf(opCreate, append(bytesOf("/torture/a"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)...)
	join        = multiOf(opCreate, bytesOf("/torture/a/x-lock-")...)
	release     = frameOf(opDelete, append(bytesOf("/torture/a/x-lock-0000000001"), 0xff, 0xff, 0xff, 0xff)...)
	flush       = frameOf(opDelete, append(bytesOf("/torture/a/x-lock-flush"), 0xff, 0xff, 0xff, 0xff)...)
	checked     = append(bytesOf("/torture/a/x-lock-0000000001"), 0, 0, 0, 0)
	header      = []byte{0, 0, 0, opCheck, 0, 0xff, 0xff, 0xff, 0xff}
	done        = []byte{0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff}
	heartbeat   = multiOf(opCheck, slices.Concat(checked, header, checked, done)...)
	joinChecked = multiOf(opCheck, slices.Concat(checked, []byte{0, 0, 0, opCreate, 0, 0xff, 0xff, 0xff, 0xff}, bytesOf("/torture/a/x-lock-"))...)
	read        = frameOf(4, append(bytesOf("/torture/a"), 0)...)
)

func TestRequestKindsAreRecognisedByTheirFrames(t *testing.T) {
	for _, one := range []struct {
		name  string
		frame []byte
		is    string
	}{
		{"create", create, "join"},
		{"join", join, "join"},
		{"release", release, "release"},
		{"heartbeat", heartbeat, "heartbeat"},
		{"join behind a check of a node of the session", joinChecked, "join"},
		{"transaction that is cut short", heartbeat[:len(heartbeat)-12], ""},
		{"transaction whose path is longer than the frame", multiOf(opCheck, 0x7f, 0xff, 0xff, 0xff, 1, 1, 1, 1, 1), ""},
		{"parent", makeParent, ""},
		{"flush", flush, ""},
		{"read", read, ""},
		{"ping", frameOf(11), ""},
		{"short", []byte{1}, ""},
	} {
		for request, is := range requestsOf {
			require.Equal(t, one.is == request, is(one.frame), "%s as %s", one.name, request)
		}
	}
	// The first frame of a connection has the epoch, the upper half of a zxid, where others have their operation.
	for _, epoch := range []uint64{opCreate, opDelete, opMulti} {
		for _, counter := range []uint64{1, 13, 28} {
			hello := binary.BigEndian.AppendUint64([]byte{0, 0, 0, 0}, epoch<<32|counter)
			hello = binary.BigEndian.AppendUint32(hello, 4000)
			hello = binary.BigEndian.AppendUint64(hello, 0x1000123456789abc)
			hello = append(append(hello, 0, 0, 0, 16), make([]byte, 16)...)
			for request, is := range requestsOf {
				require.False(t, is(hello), "first frame in epoch %d as %s", epoch, request)
			}
		}
	}
}
