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

// A liar passes a server's replies on, but for one field of those that are a header and a Stat.
type liar struct {
	net.Conn
	alter func(frame []byte)
	rest  []byte // of a frame that was altered and not read yet
}

const (
	header   = 16
	statSize = 68
)

func (l *liar) Read(p []byte) (int, error) {
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

// through is a server whose replies pass by a liar.
func through(on server, alter func(frame []byte)) server {
	dial := on.dial
	on.dial = func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		return &liar{Conn: c, alter: alter}, nil
	}
	return on
}

// plain touches each field of a Stat.
func plain(s *stage) {
	a := s.session("a")
	a.do(create("/stage/n", wire.Ephemeral))
	a.do(set("/stage/n", -1))
	a.do(setACL("/stage/n", -1, wire.World...))
	a.do(exists("/stage/n"))
	a.do(exists(root))
}

func TestAWrongFieldIsFound(t *testing.T) {
	reference, double := both(t)
	want := perform(t, reference, plain)
	require.Equal(t, want, perform(t, through(double, func([]byte) {}), plain))
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
			got := perform(t, through(double, func(frame []byte) { frame[field.last]++ }), plain)
			require.NotEqual(t, want, got)
			require.Contains(t, parting(reference, double, want, got), "a< ", "it shows where")
		})
	}
}
