// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// ErrRefused reports that a server refused the token of a SASL exchange.
var ErrRefused = errors.New("server refused the credentials")

// maxToken bounds a server's answer in a SASL exchange: tokens of Kerberos have some kilobytes.
const maxToken = 1 << 20

// Codes of errors in replies.
const (
	codeOfReply         = zxidOfReply + 8 // where it is
	codeNoNode          = -101
	codeAuthFailed      = 1<<32 - 115
	codeUnauthenticated = 1<<32 - 124 // the server requires SASL, and has carried out nothing
)

// nameUnauthenticated turns the error of a server that requires SASL, which the ZooKeeper client
// does not know, into the one that is closest: zk.ErrAuthFailed. head is the beginning of a reply.
func nameUnauthenticated(head []byte) {
	if len(head) >= codeOfReply+4 && binary.BigEndian.Uint32(head[codeOfReply:]) == codeUnauthenticated {
		binary.BigEndian.PutUint32(head[codeOfReply:], codeAuthFailed)
	}
}

// login has the client authenticated, after the server's reply to the handshake and before the
// ZooKeeper client reads that reply: no request can precede the exchange. The exchange ends by
// greetBy, like the handshake.
func (w *Wire) login(h Hello) error {
	// An expired session has no connection that could be authenticated.
	if w.hooks.Login == nil || h.SessionID == 0 {
		return nil
	}
	if _, err := w.r.Discard(w.left); err != nil {
		return err
	}
	w.left, w.unread = 0, h.Frame
	if err := errors.Join(w.SetReadDeadline(w.greetBy), w.SetWriteDeadline(w.greetBy)); err != nil {
		return fmt.Errorf("SASL: %w", err)
	}
	xid := int32(0)
	err := w.hooks.Login(func(token []byte) ([]byte, error) {
		xid++
		return w.exchange(xid, token)
	})
	if err != nil {
		return fmt.Errorf("SASL: %w", err)
	}
	return nil
}

// exchange sends a token, and returns the token of the server's answer.
func (w *Wire) exchange(xid int32, token []byte) ([]byte, error) {
	const header = 4 + 8 + 4 // xid, zxid, error
	packet := make([]byte, 4, 4+12+len(token))
	packet = binary.BigEndian.AppendUint32(packet, uint32(xid))
	packet = binary.BigEndian.AppendUint32(packet, opSASL)
	packet = binary.BigEndian.AppendUint32(packet, uint32(len(token))) // 0 and not -1: a server without a token fails
	packet = append(packet, token...)
	binary.BigEndian.PutUint32(packet, uint32(len(packet)-4))
	if _, err := w.Conn.Write(packet); err != nil {
		return nil, w.explainExchange(err)
	}
	head := make([]byte, 4+header)
	if _, err := io.ReadFull(w.r, head); err != nil {
		return nil, w.explainExchange(err)
	}
	length := int(int32(binary.BigEndian.Uint32(head)))
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != xid || length < header || length > header+4+maxToken {
		return nil, fmt.Errorf("answer %d of %d bytes: not the answer to token %d", got, length, xid)
	}
	body := make([]byte, length-header)
	if _, err := io.ReadFull(w.r, body); err != nil {
		return nil, w.explainExchange(err)
	}
	if code := int32(binary.BigEndian.Uint32(head[4+12:])); code != 0 {
		return nil, fmt.Errorf("%w (code %d)", ErrRefused, code)
	}
	if len(body) < 4 {
		return nil, nil
	}
	answer := body[4:]
	if n := int(int32(binary.BigEndian.Uint32(body))); n >= 0 && n <= len(answer) { // -1: none
		return answer[:n], nil
	}
	return nil, nil
}

// explainExchange returns the likely reason why a server did not answer a token.
func (w *Wire) explainExchange(err error) error {
	switch {
	case w.isClosed():
		return fmt.Errorf("exchange: %w", net.ErrClosed)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("server closed the connection during the exchange: %w", err)
	}
	return fmt.Errorf("exchange: %w", err)
}
