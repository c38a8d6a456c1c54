// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// maxPacket is ZooKeeper's jute.maxbuffer: a frame may be as long as that.
const maxPacket = 0xfffff

// framed is a frame around bytes.
func framed(body ...[]byte) []byte {
	all := bytes.Join(body, nil)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(all))), all...) //nolint:gosec // short
}

var frames = []scenario{
	{"a frame of an impossible length ends the connection", func(s *stage) {
		for i, length := range []uint32{0xffffffff, 0x80000000, 0x7fffffff, maxPacket + 1, 16 << 20} {
			p := s.session(fmt.Sprint("p", i))
			s.note("a length of %#x", length)
			p.send(binary.BigEndian.AppendUint32(nil, length), []byte("some bytes of it"))
			p.awaitEnd()
		}
	}},
	{"a frame that is too short to be a request", func(s *stage) {
		for _, n := range []int{0, 1, 4, 7} {
			p := s.session(fmt.Sprint("p", n))
			p.send(framed(make([]byte, n)))
			p.skim()
		}
	}},
	{"a first frame that is none", func(s *stage) {
		connect := wire.ConnectRequest{Timeout: longest, Password: make([]byte, 16)}.Frame()[4:]
		for i, first := range [][]byte{
			framed(), framed([]byte{0}), framed(make([]byte, 20)), framed(connect[:len(connect)-1]), framed(connect[:28]),
			binary.BigEndian.AppendUint32(nil, 0xffffffff), binary.BigEndian.AppendUint32(nil, maxPacket+1), []byte("GET / HTTP/1.1\r\n\r\n"),
			framed(connect, []byte{0}, []byte("more")), framed(connect[:24], []byte{0xff, 0xff, 0xff, 0xf0}), framed(connect[:24], []byte{0x7f, 0xff, 0xff, 0xf0}),
		} {
			p := s.stranger(fmt.Sprint("p", i))
			p.send(first)
			p.greeting()
			s.settle()
		}
	}},
	{"a request that goes on", func(s *stage) {
		a := s.session("a")
		for i, req := range []any{create("/stage/n", wire.Persistent), set("/stage/n", -1), exists(root), multi(check(root, -1)), deletion("/stage/n", -1), wire.Ping{}, wire.WhoAmI{}} {
			s.note("%s, and four bytes more", describe(req))
			xid := int32(1000 + i)
			a.expect(xid, rawclient.OpOf(req))
			a.send(framed(rawclient.Request(xid, req)[4:], []byte{1, 2, 3, 4}))
			a.skim()
		}
	}},
	{"lengths in a request that stand for nothing", func(s *stage) {
		a := s.session("a")
		for _, raw := range []rawclient.Raw{
			{Op: wire.OpCreate, Put: func(w *wire.Writer) { w.String("/stage/n"); w.Bytes(nil); w.Int32(-1); w.Int32(0) }},
			{Op: wire.OpSetWatches, Put: func(w *wire.Writer) { w.Int64(0); w.Int32(0); w.Int32(0); w.Int32(0) }},
		} {
			a.do(raw)
		}
		a.do(children(root))
	}},
	{"a frame of the longest length is taken", func(s *stage) {
		for i, over := range []int{-1, 0} {
			p := s.session(fmt.Sprint("p", i))
			p.do(hidden{create("/stage/n", wire.Persistent)})
			req := wire.SetData{Path: "/stage/n", Version: -1}
			req.Data = make([]byte, maxPacket-(len(rawclient.Request(1, req))-4)+over)
			p.do(req)
			p.do(exists("/stage/n"))
		}
		a := s.session("a")
		a.do(exists("/stage/n"))
	}},
	{"frames may come byte by byte", func(s *stage) {
		a := s.session("a")
		a.expect(1000, wire.OpCreate)
		for _, b := range rawclient.Request(1000, create("/stage/n", wire.Persistent)) {
			a.send([]byte{b})
		}
		a.until(1000)
		s.settle()
	}},
	{"a second handshake is a request like others", func(s *stage) {
		a := s.session("a")
		a.expect(0, 0)
		a.send(wire.ConnectRequest{Timeout: longest, Password: make([]byte, 16), KnowsReadOnly: true}.Frame())
		a.skim()
	}},
}
