// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"io"
	"net"
	"time"
)

// StandIn serves the ZooKeeper client over conn in place of a server: it repeats hello, the
// last handshake of a server, and answers each request with an error that no server sends,
// zk.ErrNothing. It returns, and closes conn, when no request has come for quiet.
func StandIn(conn net.Conn, hello []byte, quiet time.Duration) {
	defer func() { _ = conn.Close() }() // never fails
	if _, err := readPacket(conn, time.Second); err != nil {
		return
	}
	if _, err := conn.Write(hello); err != nil {
		return
	}
	for {
		packet, err := readPacket(conn, quiet)
		if err != nil || len(packet) < 8 {
			return
		}
		answer := make([]byte, 4+16) // length, xid, zxid, error
		answer[3] = 16
		copy(answer[4:], packet[:4])
		// The client sends nothing else before its credentials are accepted.
		if binary.BigEndian.Uint32(packet[4:]) != opSetAuth {
			binary.BigEndian.PutUint32(answer[16:], codeNothing)
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// codeNothing is the code of zk.ErrNothing, -117.
const codeNothing = 1<<32 - 117

// readPacket reads one packet and returns it without its length. It waits at most wait for
// the packet to begin.
func readPacket(conn net.Conn, wait time.Duration) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	packet := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(conn, packet)
	return packet, err
}
