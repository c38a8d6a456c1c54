// SPDX-License-Identifier: Apache-2.0

// Package txnlog reads the transaction logs of ZooKeeper servers: the commit order of an ensemble, independently of its clients.
//
// [ReadServer] reads the files of one server, [Agreed] merges the files of an ensemble. The package supports the formats of
// ZooKeeper 3.5 to 3.9. The files also contain transactions that were logged and never committed: see Agreed.
package txnlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Type is what a transaction does.
type Type int32

// The types that a server logs, and the meaning of Paths for each.
const (
	Error           Type = -1  // it was rejected, and changed nothing
	CreateSession   Type = -10 // a session began
	CloseSession    Type = -11 // it ended, on request or by timeout: its ephemeral nodes
	Create          Type = 1   // the node
	Delete          Type = 2   // the node
	SetData         Type = 5   // the node
	SetACL          Type = 7   // the node
	Check           Type = 13  // the node
	Multi           Type = 14  // none: see Parts
	Create2         Type = 15  // as Create
	Reconfig        Type = 16  // the node
	CreateContainer Type = 19  // the node
	DeleteContainer Type = 20  // the node, which the servers reaped
	CreateTTL       Type = 21  // the node
)

// A Txn is one transaction.
type Txn struct {
	Zxid    int64
	Session int64     // that requested it, or that ended
	Request int32     // its xid in that session; 0 if the servers initiated it
	Time    time.Time // by the clock of the leader, when it proposed it, to the millisecond
	Type    Type
	Part           // the operation, except for Multi
	Parts   []Part // of a Multi, in order; of a rejected one, one or more are Errors
}

// A Part is one operation of a transaction.
type Part struct {
	Type      Type
	Paths     []string
	Ephemeral bool          // of a created node: it ends with the session
	Data      []byte        // of a node that does not end with a session, or that SetData has written
	Timeout   time.Duration // of CreateSession
}

// All returns the parts of a Multi, or the single operation of another transaction. For a rejected Multi it returns one Error:
// the log has the operations in front of the rejected one, but none of them was applied.
func (t *Txn) All() []Part {
	switch {
	case t.Type != Multi:
		return []Part{t.Part}
	case slices.ContainsFunc(t.Parts, func(p Part) bool { return p.Type == Error }):
		return []Part{{Type: Error}}
	}
	return t.Parts
}

// ReadDir reads the files of a folder that are named log.<first zxid>, in their order.
func ReadDir(dir string) ([]Txn, error) {
	names, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return nil, fmt.Errorf("transaction log %s: %w", dir, err)
	}
	first := map[string]uint64{}
	for _, name := range names {
		zxid, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(name), "log."), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("transaction log %s: no zxid in its name: %w", name, err)
		}
		first[name] = zxid
	}
	slices.SortFunc(names, func(a, b string) int {
		if first[a] < first[b] {
			return -1
		}
		return 1
	})
	var all []Txn
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("transaction log: %w", err)
		}
		txns, err := Read(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, txns...)
	}
	return all, nil
}

// Read reads one file. It stops at the end, or at an incomplete transaction, which a server was writing when it was killed or
// its disk was full.
func Read(r io.Reader) ([]Txn, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("transaction log: %w", err)
	}
	if len(b) < 16 {
		return nil, nil // the server was killed right after it created the file
	}
	if string(b[:4]) != "ZKLG" || binary.BigEndian.Uint32(b[4:]) != 2 {
		return nil, fmt.Errorf("transaction log: unknown file header % x", b[:8])
	}
	var txns []Txn
	for b = b[16:]; len(b) >= 12; {
		sum, size := binary.BigEndian.Uint64(b), int(binary.BigEndian.Uint32(b[8:]))
		b = b[12:]
		if size == 0 || size < 0 || size >= len(b) || b[size] != 'B' || uint64(adler32.Checksum(b[:size])) != sum {
			break // padding, or truncated
		}
		t, err := decode(b[:size])
		if err != nil {
			return txns, fmt.Errorf("transaction log: after %d transactions: %w", len(txns), err)
		}
		txns = append(txns, t)
		b = b[size+1:]
	}
	return txns, nil
}

func decode(b []byte) (Txn, error) {
	r := &record{bytes.NewReader(b), nil}
	t := Txn{Session: r.int64(), Request: r.int32(), Zxid: r.int64(), Time: time.UnixMilli(r.int64()), Type: Type(r.int32())}
	if t.Type == Multi {
		for range r.length() {
			kind := Type(r.int32())
			body := &record{bytes.NewReader(r.bytes()), nil}
			t.Parts = append(t.Parts, body.part(kind))
			r.err = errors.Join(r.err, body.err)
			if r.err != nil {
				break
			}
		}
		t.Part.Type = Multi
	} else {
		t.Part = r.part(t.Type)
	}
	if r.err != nil {
		return t, fmt.Errorf("transaction 0x%x of type %d: %w", t.Zxid, t.Type, r.err)
	}
	return t, nil
}

// A record is read field by field. The first error stays, and zeros follow it.
type record struct {
	from *bytes.Reader
	err  error
}

func (r *record) part(kind Type) Part {
	p := Part{Type: kind}
	switch kind {
	case CreateSession:
		p.Timeout = time.Duration(r.int32()) * time.Millisecond
	case CloseSession:
		if r.from.Len() > 0 { // before 3.6 the nodes were not named
			for range r.length() {
				p.Paths = append(p.Paths, string(r.bytes()))
			}
		}
	case Create, Create2, CreateContainer, CreateTTL:
		p.Paths = []string{string(r.bytes())}
		data := r.bytes()
		for range r.length() { // ACL: permissions, scheme, id
			r.int32()
			r.bytes()
			r.bytes()
		}
		if kind == Create || kind == Create2 {
			p.Ephemeral = r.bool()
		}
		if !p.Ephemeral { // the others are most of a long log, which is read as a whole
			p.Data = data
		}
	case SetData:
		p.Paths, p.Data = []string{string(r.bytes())}, r.bytes()
	case Delete, DeleteContainer, SetACL, Check, Reconfig:
		p.Paths = []string{string(r.bytes())}
	case Error:
	default:
		r.fail(fmt.Errorf("unknown type %d", kind))
	}
	return p
}

func (r *record) fail(err error) {
	if r.err == nil {
		r.err = err
		r.from.Reset(nil)
	}
}

func (r *record) take(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(r.from, b); err != nil {
		r.fail(fmt.Errorf("truncated: %w", io.ErrUnexpectedEOF))
	}
	return b
}

func (r *record) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *record) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *record) bool() bool   { return r.take(1)[0] != 0 }

// length reads the length of a list or of bytes; ZooKeeper writes -1 for a missing one.
func (r *record) length() int {
	n := int(r.int32())
	if n > r.from.Len() {
		r.fail(fmt.Errorf("length %d, but only %d bytes are left", n, r.from.Len()))
		return 0
	}
	return max(n, 0)
}

func (r *record) bytes() []byte { return r.take(r.length()) }
