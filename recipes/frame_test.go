// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"encoding/binary"
	"fmt"
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
