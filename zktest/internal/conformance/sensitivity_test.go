// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// An alteringConn passes a server's replies on, but alters those that consist of a header and a Stat.
type alteringConn struct {
	net.Conn
	alter func(frame []byte)
	rest  []byte // unread bytes of the current frame
}

const (
	header   = 16
	statSize = 68
)

func (l *alteringConn) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		size := make([]byte, 4)
		if _, err := io.ReadFull(l.Conn, size); err != nil {
			return 0, err
		}
		frame := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(l.Conn, frame); err != nil {
			return 0, err
		}
		if len(frame) == header+statSize {
			l.alter(frame)
		}
		l.rest = append(size, frame...)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// altered returns the server with connections that alter its replies.
func altered(on server, alter func(frame []byte)) server {
	dial := on.dial
	on.dial = func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		return &alteringConn{Conn: c, alter: alter}, nil
	}
	return on
}

// touchAllStatFields changes each field of a Stat.
func touchAllStatFields(s *run) {
	a := s.session("a")
	a.do(create("/probe/n", wire.Ephemeral))
	a.do(set("/probe/n", -1))
	a.do(setACL("/probe/n", -1, wire.World...))
	a.do(exists("/probe/n"))
	a.do(exists(root))
}

func TestOneWrongFieldIsDetected(t *testing.T) {
	reference, double := both(t)
	want := record(t, reference, touchAllStatFields)
	require.Equal(t, want, record(t, altered(double, func([]byte) {}), touchAllStatFields))
	for _, field := range []struct {
		name string
		last int // the field's last byte
	}{
		{"the reply's zxid", 11},
		{"the reply's code", 15},
		{"czxid", header + 7},
		{"mzxid", header + 15},
		{"ctime", header + 23},
		{"mtime", header + 31},
		{"version", header + 35},
		{"cversion", header + 39},
		{"aversion", header + 43},
		{"ephemeralOwner", header + 51},
		{"dataLength", header + 55},
		{"numChildren", header + 59},
		{"pzxid", header + 67},
	} {
		t.Run(field.name, func(t *testing.T) {
			got := record(t, altered(double, func(frame []byte) { frame[field.last]++ }), touchAllStatFields)
			require.NotEqual(t, want, got)
			require.Contains(t, divergence(reference, double, want, got), "a< ", "the description shows the place")
		})
	}
}
