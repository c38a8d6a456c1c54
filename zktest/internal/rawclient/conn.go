// SPDX-License-Identifier: Apache-2.0

// Package rawclient speaks ZooKeeper's protocol frame by frame, for tests: it sends what it is told to, in order or
// nonsense, and shows what comes back in the order in which it came. It keeps no session alive, hides nothing and
// retries nothing.
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
	// ErrEnded says that the server has ended the connection.
	ErrEnded = errors.New("the connection has ended")
	// ErrSilent says that nothing came for as long as the caller was willing to wait. A frame that had begun is lost:
	// the connection is of no more use.
	ErrSilent = errors.New("the server is silent")
)

const (
	maxFrame = 64 << 20 // bounds what is read: no test asks for more
	sendTime = 10 * time.Second
)

// A Conn is one connection to a server. It starts no goroutine, and is for one at a time.
type Conn struct{ net net.Conn }

// New speaks over c, and owns it.
func New(c net.Conn) *Conn { return &Conn{net: c} }

// Close hangs up, without a word to the server: the session goes on.
func (c *Conn) Close() error { return c.net.Close() }

// Send writes frames, or any bytes, in one write. A server that does not read them is waited for as long as sendTime.
func (c *Conn) Send(frames ...[]byte) error {
	if err := c.net.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	_, err := c.net.Write(all)
	return err
}

// Frame reads the next frame, without its length. The error is ErrEnded, ErrSilent after so much patience, or says
// what is wrong with the frame.
func (c *Conn) Frame(patience time.Duration) ([]byte, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c.net, size[:]); err != nil {
		return nil, outcome(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("the server announces a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(c.net, frame); err != nil {
		return nil, outcome(err)
	}
	return frame, nil
}

// Text reads all that comes until the server ends the connection: the answer to a four-letter word.
func (c *Conn) Text(patience time.Duration) (string, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnded, err)
	}
	all, err := io.ReadAll(c.net)
	if err != nil {
		return string(all), outcome(err)
	}
	return string(all), nil
}

// outcome tells a server that says nothing from one that has gone: whether with a FIN or with a reset depends on what
// it had not read yet.
func outcome(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSilent
	}
	return fmt.Errorf("%w: %w", ErrEnded, err)
}

// Connect sends the first frame of a connection and reads the answer. The error is that of Frame.
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

// Next reads the next packet. The error is that of Frame.
func (c *Conn) Next(patience time.Duration) (Packet, error) {
	frame, err := c.Frame(patience)
	if err != nil {
		return Packet{}, err
	}
	r := wire.NewReader(frame)
	header := wire.ReadReplyHeader(r)
	if r.Err() != nil {
		return Packet{}, fmt.Errorf("a frame of %d bytes has no header: %w", len(frame), r.Err())
	}
	return Packet{ReplyHeader: header, Body: frame[len(frame)-r.Len():]}, nil
}

// IsEvent reports whether the packet answers no request.
func (p Packet) IsEvent() bool { return p.Xid == wire.XidWatchEvent }
