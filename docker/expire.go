// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// ErrNoSession is matched by the error of Expire for a session that does not exist, or has
// ended already.
var ErrNoSession = errors.New("session does not exist")

// Expire ends a session of any client immediately: its ephemeral nodes are deleted, and its
// client is disconnected and learns of the loss when it attaches again. ZooKeeper has no
// request for that. Expire attaches to the session, with the password that servers derive from
// its id, and closes it. The client may attach again in between: Expire repeats both until the
// servers report that the session is over, or ctx ends.
func (e *Ensemble) Expire(ctx context.Context, session int64) error {
	closing, at := false, 0
	err := poll(ctx, func(ctx context.Context) error {
		addr := e.servers[at%len(e.servers)].Addr() // if one is partitioned, another may answer
		at++
		sent, err := closeSession(ctx, addr, session)
		if closing && errors.Is(err, ErrNoSession) {
			return nil // an earlier request has closed it, and its reply was lost
		}
		closing = closing || sent
		if errors.Is(err, ErrNoSession) {
			return &fatal{err}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("expire session 0x%x: %w", uint64(session), err)
	}
	return nil
}

// closeSession attaches to a session at one server and closes it. sent reports whether it has
// sent the request to close it.
func closeSession(ctx context.Context, addr string, session int64) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // the server closes it as well
	// A past deadline ends whatever the connection waits for, at the end of ctx.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	attach := binary.BigEndian.AppendUint32(nil, 0)       // protocol version
	attach = binary.BigEndian.AppendUint64(attach, 0)     // last zxid seen
	attach = binary.BigEndian.AppendUint32(attach, 4_000) // timeout, in ms
	attach = binary.BigEndian.AppendUint64(attach, uint64(session))
	attach = append(binary.BigEndian.AppendUint32(attach, 16), sessionPassword(session)...)
	reply, err := exchange(conn, append(attach, 0)) // not read-only
	if err != nil {
		return false, err
	}
	if len(reply) < 8 || binary.BigEndian.Uint32(reply[4:]) == 0 { // the negotiated timeout
		return false, ErrNoSession
	}
	const operation = -11
	request := binary.BigEndian.AppendUint32(nil, 1) // xid: servers use 0 for sessions that time out
	_, err = exchange(conn, binary.BigEndian.AppendUint32(request, 1<<32+operation))
	return true, err
}

// exchange sends a frame and reads the next.
func exchange(conn net.Conn, frame []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, min(binary.BigEndian.Uint32(length[:]), 1<<20))
	_, err := io.ReadFull(conn, reply)
	return reply, err
}

// sessionPassword returns the password that ZooKeeper derives from a session's id: 16 bytes of
// java.util.Random, seeded with the id and a constant that is the same on all servers.
func sessionPassword(session int64) []byte {
	const (
		secret     = 0xB3415C00
		multiplier = 0x5DEECE66D
		mask       = 1<<48 - 1
	)
	seed := (uint64(session) ^ secret ^ multiplier) & mask
	var password []byte
	for range 4 {
		seed = (seed*multiplier + 0xB) & mask
		password = binary.LittleEndian.AppendUint32(password, uint32(seed>>16))
	}
	return password
}
