// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// DialFunc opens a connection to a server of ZooKeeper.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// A Session is what closing a ZooKeeper session takes.
type Session struct {
	Servers  []string      `json:"servers"` // host:port, the one that serves the session first
	ID       int64         `json:"id"`
	Password []byte        `json:"password"`
	Timeout  time.Duration `json:"timeout"` // T
}

// errNotSent is the error of requests that no server has received.
var errNotSent = errors.New("not connected")

// Causes of sessions that were not closed. No attempt follows them.
var (
	errGone     = errors.New("the server does not know the session: it has ended")
	errReplaced = errors.New("the server opened another session in place of the one that was presented")
	errRefused  = errors.New("the server refused to close the session")
)

// isFinal reports whether no other server would close the session.
func isFinal(err error) bool {
	return err == nil || errors.Is(err, errGone) || errors.Is(err, errReplaced) || errors.Is(err, errRefused)
}

const (
	passwordLength = 16
	xidOfClose     = 1
	maxFrame       = 1 << 16 // of an answer: those to a handshake and a close have less than a hundred bytes

	unauthenticated = -124 // the server requires SASL
)

// closeRequest is a frame that closes the session of its connection.
var closeRequest = []byte{0, 0, 0, 8, 0, 0, 0, xidOfClose, 0xff, 0xff, 0xff, 0xf5}

// handshake returns the frame that attaches to the session, or opens one if the ID is 0.
func (s *Session) handshake() []byte {
	frame := make([]byte, 8, 64)                    // length; version of the protocol: 0
	frame = binary.BigEndian.AppendUint64(frame, 0) // the last zxid seen
	frame = binary.BigEndian.AppendUint32(frame, uint32(s.Timeout.Milliseconds()))
	frame = binary.BigEndian.AppendUint64(frame, uint64(s.ID))
	frame = binary.BigEndian.AppendUint32(frame, passwordLength)
	frame = append(frame, make([]byte, passwordLength)...)
	copy(frame[len(frame)-passwordLength:], s.Password)
	frame = append(frame, 0) // not read-only
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// connect connects to a server and sends packets in one write: a server that has the first one has them all. stop
// closes the connection, as the end of ctx does.
func connect(ctx context.Context, dial DialFunc, server string, packets []byte) (conn net.Conn, stop func(), err error) {
	conn, err = dial(ctx, "tcp", server)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	closed := context.AfterFunc(ctx, func() { _ = conn.Close() })
	stop = func() {
		if closed() {
			_ = conn.Close()
		}
	}
	if _, err := conn.Write(packets); err != nil {
		stop()
		return nil, nil, err
	}
	return conn, stop, nil
}

// readFrame returns the next frame, without its length.
func readFrame(conn net.Conn, least int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame || int(n) < least {
		return nil, fmt.Errorf("not a ZooKeeper server: its answer begins with %q", head)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(conn, frame)
	return frame, err
}

// readHello returns the session that the answer to a handshake names.
func readHello(conn net.Conn) (id int64, password []byte, err error) {
	const session, secret = 4 + 4, 4 + 4 + 8 + 4 // after the version and the timeout; after the session and a length
	frame, err := readFrame(conn, secret+passwordLength)
	if err != nil {
		return 0, nil, fmt.Errorf("handshake: %w", err)
	}
	return int64(binary.BigEndian.Uint64(frame[session:])), frame[secret : secret+passwordLength], nil
}

// closeOn attaches to the session on a server and closes it. The server receives both requests in one write: an attachment
// alone would only prolong the session. It returns nil if the server has closed the session.
func (s *Session) closeOn(ctx context.Context, dial DialFunc, server string) error {
	conn, stop, err := connect(ctx, dial, server, append(s.handshake(), closeRequest...))
	if err != nil {
		return err
	}
	defer stop()
	switch id, _, err := readHello(conn); {
	case err != nil:
		return err
	case id == 0:
		return errGone
	case id != s.ID:
		return errReplaced // and has closed that one
	}
	for {
		const zxid, code, header = 4, 4 + 8, 4 + 8 + 4
		frame, err := readFrame(conn, header)
		if err != nil {
			return fmt.Errorf("close: %w", err)
		}
		if binary.BigEndian.Uint32(frame) != xidOfClose {
			continue
		}
		switch refusal := int32(binary.BigEndian.Uint32(frame[code:])); refusal {
		case 0:
			return nil
		case unauthenticated:
			return fmt.Errorf("%w: it requires a login by SASL", errRefused)
		default:
			return fmt.Errorf("%w: error %d", errRefused, refusal)
		}
	}
}

// open opens the session on a server, sets its ID and password, and drops the connection.
func (s *Session) open(ctx context.Context, dial DialFunc, server string) error {
	conn, stop, err := connect(ctx, dial, server, s.handshake())
	if err != nil {
		return err
	}
	defer stop()
	id, password, err := readHello(conn)
	if err == nil && id == 0 {
		err = errors.New("handshake: the server opened no session")
	}
	s.ID, s.Password = id, password
	return err
}

// orTCP returns dial, or one that connects by plain TCP if dial is nil.
func orTCP(dial DialFunc) DialFunc {
	if dial == nil {
		return new(net.Dialer).DialContext
	}
	return dial
}
