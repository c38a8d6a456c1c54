// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The parts of ZooKeeper's protocol that a session without requests needs. The ZooKeeper
// client does not report the timeout that a server grants for one it would not request.
const (
	opPing         = 11
	opCloseSession = -11
	pingXid        = -2
)

// A greeting is what a server answers to a client that opens a session and closes it.
type greeting struct {
	timeout time.Duration // that the server granted
	open    time.Duration // until the session was open: a write through the quorum
	ping    time.Duration // until the server answered a ping by itself
	zxid    int64         // of the transaction that closed the session
}

// greet opens a session on conn with a requested timeout, and closes it. The caller closes
// conn, and sets its deadline.
func greet(conn net.Conn, timeout time.Duration) (*greeting, error) {
	g := &greeting{}
	request := make([]byte, 0, 45)
	request = binary.BigEndian.AppendUint32(request, 0) // protocol version
	request = binary.BigEndian.AppendUint64(request, 0) // last zxid seen
	request = binary.BigEndian.AppendUint32(request, uint32(timeout.Milliseconds()))
	request = binary.BigEndian.AppendUint64(request, 0)  // a new session
	request = binary.BigEndian.AppendUint32(request, 16) // password
	request = append(request, make([]byte, 16)...)
	request = append(request, 0) // not for reading only

	began := time.Now()
	reply, err := ask(conn, request)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	if len(reply) < 16 {
		return nil, errors.New("open session: the answer is too short")
	}
	g.open = time.Since(began)
	g.timeout = time.Duration(binary.BigEndian.Uint32(reply[4:])) * time.Millisecond
	if session := binary.BigEndian.Uint64(reply[8:]); session == 0 || g.timeout <= 0 {
		return nil, errors.New("open session: the server refused it")
	}

	began = time.Now()
	if _, err := ask(conn, header(pingXid, opPing)); err != nil {
		return nil, fmt.Errorf("ping: %w", err)
	}
	g.ping = time.Since(began)
	reply, err = ask(conn, header(1, opCloseSession))
	if err != nil {
		return nil, fmt.Errorf("close session: %w", err)
	}
	if len(reply) < 16 {
		return nil, errors.New("close session: the answer is too short")
	}
	g.zxid = int64(binary.BigEndian.Uint64(reply[4:]))
	return g, nil
}

// header returns the header of a request without a body.
func header(xid, op int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	return binary.BigEndian.AppendUint32(b, uint32(op))
}

// ask sends one frame, and returns the next one.
func ask(conn net.Conn, frame []byte) ([]byte, error) {
	length := uint32(len(frame))
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, length), frame...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<16 {
		return nil, fmt.Errorf("the answer has %d bytes: this is no ZooKeeper server", n)
	}
	reply := make([]byte, n)
	_, err := io.ReadFull(conn, reply)
	return reply, err
}
