// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// A frame is read from the front.
type frame struct{ b []byte }

func (f *frame) take(n int) []byte {
	taken := f.b[:n]
	f.b = f.b[n:]
	return taken
}

func (f *frame) int32() int32 { return int32(binary.BigEndian.Uint32(f.take(4))) }
func (f *frame) int64() int64 { return int64(binary.BigEndian.Uint64(f.take(8))) }

func (f *frame) bytes() []byte { return f.take(max(0, int(f.int32()))) }

func (f *frame) ops(op int32) []stubOp {
	var ops []stubOp
	switch op {
	case opPing, opClose, opSetAuth:
	case opSetWatches:
		f.int64() // relative zxid
		for range f.int32() {
			ops = append(ops, stubOp{kind: opGetData, path: string(f.bytes()), watch: true})
		}
	case opMulti:
		for {
			kind, last := f.int32(), f.take(1)[0] != 0
			f.int32()
			if last {
				return ops
			}
			ops = append(ops, f.op(kind))
		}
	default:
		ops = append(ops, f.op(op))
	}
	return ops
}

func (f *frame) op(kind int32) stubOp {
	o := stubOp{kind: kind, path: string(f.bytes())}
	switch kind {
	case opCreate, opContainer:
		o.data = f.bytes()
		for range f.int32() {
			f.int32()
			f.bytes()
			f.bytes()
		}
		o.flags = f.int32()
	case opSetData:
		o.data, o.version = f.bytes(), f.int32()
	case opDelete, opCheck:
		o.version = f.int32()
	case opGetData, opGetChildren:
		o.watch = f.take(1)[0] != 0
	default:
		panic(fmt.Sprintf("stub: operation %d", kind))
	}
	return o
}

func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	packet := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(r, packet)
	return packet, err
}

// framed puts the length in front.
func framed(packet []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)
}

func reply(xid int32, zxid int64, code int32, body []byte) []byte {
	packet := binary.BigEndian.AppendUint32(nil, uint32(xid))
	packet = binary.BigEndian.AppendUint64(packet, uint64(zxid))
	packet = binary.BigEndian.AppendUint32(packet, uint32(code))
	if code != 0 {
		body = nil
	}
	return framed(append(packet, body...))
}

// helloFrame is the answer to a handshake, as servers since 3.4 give it.
func helloFrame(timeout time.Duration, session int64) []byte {
	packet := binary.BigEndian.AppendUint32(nil, 0)
	packet = binary.BigEndian.AppendUint32(packet, uint32(timeout.Milliseconds()))
	packet = binary.BigEndian.AppendUint64(packet, uint64(session))
	packet = appendString(packet, "0123456789abcdef")
	return framed(append(packet, 0)) // not read-only
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
