// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"encoding/binary"
	"io"
	"net"
	"time"
)

// giveBack has the ZooKeeper client fail the requests that stand in its queue, which
// came there as its connection ended and were not sent.
//
// go-zookeeper v1.0.4 gives them back after a full round of the servers only, and then
// pauses for a second, in which a session with a short timeout is lost. So the next
// connection is made to a goroutine that repeats the last handshake of a server, answers
// each request with an error that no server sends, zk.ErrNothing, and ends the connection
// as soon as no more come.
func (d *dialer) giveBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.giving = true
}

// isReturning reports whether the client is connected to what gives requests back.
func (d *dialer) isReturning() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.returns
}

// returning is such a connection.
func (d *dialer) returning(hello []byte) net.Conn {
	client, server := net.Pipe()
	quiet := max(d.negotiated()/480, time.Millisecond)
	d.blocking.run(func() {
		defer func() { _ = server.Close() }() // never fails
		if _, err := readPacket(server, time.Second); err != nil {
			return
		}
		if _, err := server.Write(hello); err != nil {
			return
		}
		for {
			packet, err := readPacket(server, quiet)
			if err != nil || len(packet) < 8 {
				return
			}
			answer := make([]byte, 4+16) // length, xid, zxid, error
			answer[3] = 16
			copy(answer[4:], packet[:4])
			// The client sends nothing else before its credentials are taken.
			if binary.BigEndian.Uint32(packet[4:]) != opSetAuth {
				binary.BigEndian.PutUint32(answer[16:], codeNothing)
			}
			if _, err := server.Write(answer); err != nil {
				return
			}
		}
	})
	return client
}

// codeNothing is the code of zk.ErrNothing, -117.
const codeNothing = 1<<32 - 117

// readPacket reads one packet without its length. It waits for its beginning no longer
// than that.
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

// negotiated is T, as the dialer knows it.
func (d *dialer) negotiated() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timeout
}
