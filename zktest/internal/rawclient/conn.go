// SPDX-License-Identifier: Apache-2.0

// Package rawclient speaks ZooKeeper's protocol frame by frame, for tests: it sends the frames that its caller passes,
// valid or not, and returns what the server sends, in order. It keeps no session alive, hides nothing and retries
// nothing.
package rawclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var (
	// ErrEnded is the error for a connection that the server has ended.
	ErrEnded = errors.New("connection has ended")
	// ErrSilent is the error for a server that sends nothing until the caller's timeout. A partly received frame is
	// lost: the connection cannot be used further.
	ErrSilent = errors.New("server is silent")
)

const (
	maxFrame    = 64 << 20 // of a received frame: more than any test needs
	sendTimeout = 10 * time.Second
)

// A Conn is one connection to a server. It starts no goroutine, and is not safe for concurrent use.
type Conn struct{ net net.Conn }

// New returns a Conn that uses c, and owns it.
func New(c net.Conn) *Conn { return &Conn{net: c} }

// Close closes the network connection only: the session lives on.
func (c *Conn) Close() error { return c.net.Close() }

// Send writes frames, or any bytes, in one write. It fails if the server does not read them within sendTimeout.
func (c *Conn) Send(frames ...[]byte) error {
	if err := c.net.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	_, err := c.net.Write(all)
	return err
}

// Frame reads the next frame, without its length. The error is ErrEnded, ErrSilent after that much patience, or
// describes an invalid frame.
func (c *Conn) Frame(patience time.Duration) ([]byte, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c.net, size[:]); err != nil {
		return nil, asConnError(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("read frame: announced length of %d bytes is over %d", n, maxFrame)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(c.net, frame); err != nil {
		return nil, asConnError(err)
	}
	return frame, nil
}

// Text reads until the server ends the connection: the answer to a four-letter word.
func (c *Conn) Text(patience time.Duration) (string, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnded, err)
	}
	all, err := io.ReadAll(c.net)
	if err != nil {
		return string(all), asConnError(err)
	}
	return string(all), nil
}

// asConnError returns ErrSilent for a timeout, and ErrEnded for any other error: whether a connection ends with a FIN
// or with a reset depends on what the server had not read yet.
func asConnError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSilent
	}
	return fmt.Errorf("%w: %w", ErrEnded, err)
}

// Connect sends the first frame of a connection and reads the answer. Its errors are Frame's.
func (c *Conn) Connect(req wire.ConnectRequest, patience time.Duration) (ConnectReply, error) {
	if err := c.Send(req.Frame()); err != nil {
		return ConnectReply{}, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	frame, err := c.Frame(patience)
	if err != nil {
		return ConnectReply{}, err
	}
	return readConnectReply(frame)
}

// A Packet is a reply or an event.
type Packet struct {
	wire.ReplyHeader
	Body []byte
}

// Next reads the next packet. Its errors are Frame's.
func (c *Conn) Next(patience time.Duration) (Packet, error) {
	frame, err := c.Frame(patience)
	if err != nil {
		return Packet{}, err
	}
	r := wire.NewReader(frame)
	header := wire.ReadReplyHeader(r)
	if r.Err() != nil {
		return Packet{}, fmt.Errorf("read packet: frame of %d bytes has no header: %w", len(frame), r.Err())
	}
	return Packet{ReplyHeader: header, Body: frame[len(frame)-r.Len():]}, nil
}

// IsEvent reports whether the packet is an event, not a reply.
func (p Packet) IsEvent() bool { return p.Xid == wire.XidWatchEvent }
