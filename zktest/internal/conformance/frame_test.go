// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// maxPacket is ZooKeeper's jute.maxbuffer, the length of the longest allowed frame.
const maxPacket = 0xfffff

// framed returns a frame with these bytes.
func framed(body ...[]byte) []byte {
	all := bytes.Join(body, nil)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(all))), all...) //nolint:gosec // short
}

var frames = []scenario{
	{"a frame of invalid length ends the connection", func(s *run) {
		for i, length := range []uint32{0xffffffff, 0x80000000, 0x7fffffff, maxPacket + 1, 16 << 20} {
			p := s.session(fmt.Sprint("p", i))
			s.note("a length of %#x", length)
			p.send(binary.BigEndian.AppendUint32(nil, length), []byte("some bytes of it"))
			p.awaitEnd()
		}
	}},
	{"a frame that is too short for a request", func(s *run) {
		for _, n := range []int{0, 1, 4, 7} {
			p := s.session(fmt.Sprint("p", n))
			p.send(framed(make([]byte, n)))
			p.readRest()
		}
	}},
	{"an invalid first frame", func(s *run) {
		connect := wire.ConnectRequest{Timeout: sessionTimeout, Password: make([]byte, 16)}.Frame()[4:]
		for i, first := range [][]byte{
			framed(), framed([]byte{0}), framed(make([]byte, 20)), framed(connect[:len(connect)-1]), framed(connect[:28]),
			binary.BigEndian.AppendUint32(nil, 0xffffffff), binary.BigEndian.AppendUint32(nil, maxPacket+1), []byte("GET / HTTP/1.1\r\n\r\n"),
			framed(connect, []byte{0}, []byte("more")), framed(connect[:24], []byte{0xff, 0xff, 0xff, 0xf0}), framed(connect[:24], []byte{0x7f, 0xff, 0xff, 0xf0}),
		} {
			p := s.dial(fmt.Sprint("p", i))
			p.send(first)
			p.readHandshakeReply()
			s.settle()
		}
	}},
	{"a request with trailing bytes", func(s *run) {
		a := s.session("a")
		for i, req := range []any{create("/probe/n", wire.Persistent), set("/probe/n", -1), exists(root), multi(check(root, -1)), deletion("/probe/n", -1), wire.Ping{}, wire.WhoAmI{}} {
			s.note("%s, with four trailing bytes", describe(req))
			xid := int32(1000 + i)
			a.expect(xid, rawclient.OpOf(req))
			a.send(framed(rawclient.Request(xid, req)[4:], []byte{1, 2, 3, 4}))
			a.readRest()
		}
	}},
	{"lengths in a request that mean no value", func(s *run) {
		a := s.session("a")
		for _, raw := range []rawclient.Raw{
			{Op: wire.OpCreate, Put: func(w *wire.Writer) { w.String("/probe/n"); w.Bytes(nil); w.Int32(-1); w.Int32(0) }},
			{Op: wire.OpSetWatches, Put: func(w *wire.Writer) { w.Int64(0); w.Int32(0); w.Int32(0); w.Int32(0) }},
		} {
			a.do(raw)
		}
		a.do(children(root))
	}},
	{"a frame of maximum length is accepted", func(s *run) {
		for i, over := range []int{-1, 0} {
			p := s.session(fmt.Sprint("p", i))
			p.do(hidden{create("/probe/n", wire.Persistent)})
			req := wire.SetData{Path: "/probe/n", Version: -1}
			req.Data = make([]byte, maxPacket-(len(rawclient.Request(1, req))-4)+over)
			p.do(req)
			p.do(exists("/probe/n"))
		}
		a := s.session("a")
		a.do(exists("/probe/n"))
	}},
	{"frames may arrive byte by byte", func(s *run) {
		a := s.session("a")
		a.expect(1000, wire.OpCreate)
		for _, b := range rawclient.Request(1000, create("/probe/n", wire.Persistent)) {
			a.send([]byte{b})
		}
		a.readUntil(1000)
		s.settle()
	}},
	{"a second handshake is read as a request", func(s *run) {
		a := s.session("a")
		a.expect(0, 0)
		a.send(wire.ConnectRequest{Timeout: sessionTimeout, Password: make([]byte, 16), KnowsReadOnly: true}.Frame())
		a.readRest()
	}},
}
