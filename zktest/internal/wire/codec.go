// SPDX-License-Identifier: Apache-2.0

// Package wire encodes and decodes ZooKeeper's protocol: frames, requests, replies and the
// records in them, big-endian, in the layout of ZooKeeper's jute compiler.
//
// Its input is untrusted: it trusts no length before that many bytes have arrived, and
// never panics.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrShort is the error for a record that ends before its last field.
var ErrShort = errors.New("record is too short")

// A Reader reads the fields of a record from a frame. After the first error, which Err
// returns, it returns zero values.
type Reader struct {
	rest []byte
	err  error

	transaction bool // the record belongs to a transaction, whose paths ZooKeeper needs before it looks at the operations
	missing     bool // a field that ZooKeeper needs was null
}

// NewReader returns a Reader of frame, and retains it: the byte fields that the Reader
// returns share its memory.
func NewReader(frame []byte) *Reader { return &Reader{rest: frame} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Len returns the number of unread bytes.
func (r *Reader) Len() int { return len(r.rest) }

// Fail makes err the Reader's error unless it has one, and drops the unread bytes.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *Reader) take(n int) []byte {
	if r.err != nil || n > len(r.rest) {
		r.Fail(ErrShort)
		return nil
	}
	p := r.rest[:n:n]
	r.rest = r.rest[n:]
	return p
}

// Bool reads a boolean.
func (r *Reader) Bool() bool {
	p := r.take(1)
	return p != nil && p[0] != 0
}

// Int32 reads an int.
func (r *Reader) Int32() int32 {
	p := r.take(4)
	if p == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(p)) //nolint:gosec // the field is signed on the wire
}

// Int64 reads a long.
func (r *Reader) Int64() int64 {
	p := r.take(8)
	if p == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(p)) //nolint:gosec // the field is signed on the wire
}

// Bytes reads a buffer: nil for the length −1, which differs from an empty one.
func (r *Reader) Bytes() []byte {
	n := r.Int32()
	switch {
	case r.err != nil || n == -1:
		return nil
	case n < 0:
		r.Fail(fmt.Errorf("buffer length %d is negative", n))
		return nil
	}
	return r.take(int(n))
}

// String reads a string, as ZooKeeper has it. A null one is empty.
func (r *Reader) String() string { return javaText(r.Bytes()) }

// needed is String for a field that ZooKeeper needs, if needs is true.
func (r *Reader) needed(needs bool) string {
	text := r.Bytes()
	r.missing = r.missing || needs && text == nil && r.err == nil
	return javaText(text)
}

// Count reads the length of a vector whose elements take at least size bytes each.
// A null vector, of length −1, counts as empty.
func (r *Reader) Count(size int) int {
	n := r.Int32()
	switch {
	case r.err != nil || n == -1:
		return 0
	case n < 0:
		r.Fail(fmt.Errorf("vector length %d is negative", n))
		return 0
	case int(n) > len(r.rest)/size:
		r.Fail(fmt.Errorf("vector of %d elements does not fit in %d bytes: %w", n, len(r.rest), ErrShort))
		return 0
	}
	return int(n)
}

// strings reads a vector of strings that ZooKeeper needs.
func (r *Reader) strings() []string {
	r.missing = r.missing || r.err == nil && len(r.rest) >= 4 && int32(binary.BigEndian.Uint32(r.rest)) == -1 //nolint:gosec // the field is signed on the wire
	n := r.Count(4)
	all := make([]string, 0, n)
	for range n {
		all = append(all, r.needed(true))
	}
	return all
}

// A Writer builds a frame: four bytes for its length, which Frame fills in, and then the
// fields in the order of the calls.
type Writer struct{ buf []byte }

// NewWriter returns a Writer of an empty frame.
func NewWriter() *Writer { return &Writer{buf: make([]byte, 4, 128)} }

// Bool writes a boolean.
func (w *Writer) Bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	w.buf = append(w.buf, b)
}

// Int32 writes an int.
func (w *Writer) Int32(v int32) {
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(v)) //nolint:gosec // the field is signed on the wire
}

// Int64 writes a long.
func (w *Writer) Int64(v int64) {
	w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(v)) //nolint:gosec // the field is signed on the wire
}

// Bytes writes a buffer, nil as the length −1.
func (w *Writer) Bytes(v []byte) {
	if v == nil {
		w.Int32(-1)
		return
	}
	w.Int32(int32(len(v))) //nolint:gosec // far below: a frame is bounded
	w.buf = append(w.buf, v...)
}

// String writes a string.
func (w *Writer) String(v string) {
	w.Int32(int32(len(v))) //nolint:gosec // far below: a frame is bounded
	w.buf = append(w.buf, v...)
}

// Strings writes a vector of strings.
func (w *Writer) Strings(v []string) {
	w.Int32(int32(len(v))) //nolint:gosec // far below: a frame is bounded
	for _, s := range v {
		w.String(s)
	}
}

// Len returns the number of bytes written, without the frame's length.
func (w *Writer) Len() int { return len(w.buf) - 4 }

// Frame returns the frame, with its length in front.
func (w *Writer) Frame() []byte {
	binary.BigEndian.PutUint32(w.buf, uint32(len(w.buf)-4)) //nolint:gosec // never negative
	return w.buf
}
