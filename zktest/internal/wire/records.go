// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
)

// A Stat is what is known of a node besides its data and ACL. Times are
// milliseconds since 1970.
type Stat struct {
	Czxid, Mzxid                int64
	Ctime, Mtime                int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// Put writes the Stat.
func (s Stat) Put(w *Writer) {
	w.Int64(s.Czxid)
	w.Int64(s.Mzxid)
	w.Int64(s.Ctime)
	w.Int64(s.Mtime)
	w.Int32(s.Version)
	w.Int32(s.Cversion)
	w.Int32(s.Aversion)
	w.Int64(s.EphemeralOwner)
	w.Int32(s.DataLength)
	w.Int32(s.NumChildren)
	w.Int64(s.Pzxid)
}

// ReadStat reads a Stat.
func ReadStat(r *Reader) Stat {
	return Stat{
		Czxid: r.Int64(), Mzxid: r.Int64(), Ctime: r.Int64(), Mtime: r.Int64(),
		Version: r.Int32(), Cversion: r.Int32(), Aversion: r.Int32(), EphemeralOwner: r.Int64(),
		DataLength: r.Int32(), NumChildren: r.Int32(), Pzxid: r.Int64(),
	}
}

// An ACL entry says who may do what.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

// World is the ACL that lets everybody do everything.
var World = []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"}}

func readACL(r *Reader) []ACL {
	n := r.Count(12)
	acl := make([]ACL, 0, n)
	for range n {
		acl = append(acl, ACL{Perms: r.Int32(), Scheme: r.String(), ID: r.String()})
	}
	return acl
}

// PutACL writes a vector of entries.
func PutACL(w *Writer, acl []ACL) {
	w.Int32(int32(len(acl))) //nolint:gosec // as many as fit in a frame
	for _, a := range acl {
		w.Int32(a.Perms)
		w.String(a.Scheme)
		w.String(a.ID)
	}
}

// ReadACL reads a vector of entries.
func ReadACL(r *Reader) []ACL { return readACL(r) }

// A ConnectRequest is the first frame of a connection.
type ConnectRequest struct {
	Protocol int32
	LastZxid int64 // that the client has seen
	Timeout  int32 // asked for, in milliseconds
	Session  int64 // to attach again to; 0 for a new one
	Password []byte
	// ReadOnly is a later addition: clients that do not know of it do not send it,
	// and do not expect it in the reply.
	ReadOnly, KnowsReadOnly bool
}

// ReadConnect reads a ConnectRequest.
func ReadConnect(frame []byte) (ConnectRequest, error) {
	r := NewReader(frame)
	c := ConnectRequest{
		Protocol: r.Int32(), LastZxid: r.Int64(), Timeout: r.Int32(), Session: r.Int64(), Password: r.Bytes(),
	}
	if r.Len() > 0 {
		c.KnowsReadOnly, c.ReadOnly = true, r.Bool()
	}
	return c, r.Err()
}

// Frame is the request as a frame.
func (c ConnectRequest) Frame() []byte {
	w := NewWriter()
	w.Int32(c.Protocol)
	w.Int64(c.LastZxid)
	w.Int32(c.Timeout)
	w.Int64(c.Session)
	w.Bytes(c.Password)
	if c.KnowsReadOnly {
		w.Bool(c.ReadOnly)
	}
	return w.Frame()
}

// A ConnectReply answers it. Session 0 says that the session is no more.
type ConnectReply struct {
	Timeout       int32
	Session       int64
	Password      []byte
	KnowsReadOnly bool
}

// Frame is the reply as a frame.
func (c ConnectReply) Frame() []byte {
	w := NewWriter()
	w.Int32(0)
	w.Int32(c.Timeout)
	w.Int64(c.Session)
	w.Bytes(c.Password)
	if c.KnowsReadOnly {
		w.Bool(false)
	}
	return w.Frame()
}

// ReadConnectReply reads a ConnectReply.
func ReadConnectReply(frame []byte) (ConnectReply, error) {
	r := NewReader(frame)
	_ = r.Int32() // the protocol's version, 0
	c := ConnectReply{Timeout: r.Int32(), Session: r.Int64(), Password: r.Bytes()}
	c.KnowsReadOnly = r.Len() > 0
	return c, r.Err()
}

// A Header begins each later request.
type Header struct {
	Xid int32
	Op  Op
}

// ReadHeader reads a Header.
func ReadHeader(r *Reader) Header { return Header{Xid: r.Int32(), Op: Op(r.Int32())} }

// A ReplyHeader begins each reply and each event.
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Err  Code
}

// Put writes the header.
func (h ReplyHeader) Put(w *Writer) {
	w.Int32(h.Xid)
	w.Int64(h.Zxid)
	w.Int32(int32(h.Err))
}

// ReadReplyHeader reads a ReplyHeader.
func ReadReplyHeader(r *Reader) ReplyHeader {
	return ReplyHeader{Xid: r.Int32(), Zxid: r.Int64(), Err: Code(r.Int32())}
}

// EventFrame is a watch's event as a frame.
func EventFrame(kind EventType, path string) []byte {
	w := NewWriter()
	ReplyHeader{Xid: XidWatchEvent, Zxid: -1}.Put(w)
	w.Int32(int32(kind))
	w.Int32(StateSyncConnected)
	w.String(path)
	return w.Frame()
}

// Requests, as they are decoded. Those that change something:
type (
	// Create is create, create2, createContainer and createTTL.
	Create struct {
		Op    Op
		Path  string
		Data  []byte
		ACL   []ACL
		Flags int32
		TTL   int64 // milliseconds, of createTTL
	}
	// Delete deletes a node, and DeleteContainer one that the server reaps.
	Delete struct {
		Path    string
		Version int32
	}
	// SetData replaces a node's data.
	SetData struct {
		Path    string
		Data    []byte
		Version int32
	}
	// SetACL replaces a node's ACL.
	SetACL struct {
		Path    string
		ACL     []ACL
		Version int32
	}
	// Check requires a node to have a version: part of a transaction.
	Check struct {
		Path    string
		Version int32
	}
	// Multi is a transaction of Create, Delete, SetData and Check.
	Multi struct{ Ops []any }
)

// Those that read, or concern the session:
type (
	// Exists asks for a node's Stat.
	Exists struct {
		Path  string
		Watch bool
	}
	// GetData asks for its data.
	GetData struct {
		Path  string
		Watch bool
	}
	// GetACL asks for its ACL.
	GetACL struct{ Path string }
	// GetChildren is getChildren and, with the node's Stat, getChildren2.
	GetChildren struct {
		Path     string
		Watch    bool
		WithStat bool
	}
	// MultiRead is several GetData and GetChildren at once.
	MultiRead struct{ Ops []any }
	// Sync has the server catch up.
	Sync struct{ Path string }
	// Ping keeps a session alive.
	Ping struct{}
	// Auth presents a credential.
	Auth struct {
		Scheme string
		Data   []byte
	}
	// SetWatches restores watches after a reconnection. The last two are of
	// setWatches2.
	SetWatches struct {
		RelativeZxid                                        int64
		Data, Exist, Child, Persistent, PersistentRecursive []string
	}
	// AddWatch sets a persistent watch: mode 0, or 1 for recursive.
	AddWatch struct {
		Path string
		Mode int32
	}
	// CheckWatches and RemoveWatches concern one type: 1 children, 2 data, 3 any,
	// 4 persistent, 5 persistent recursive.
	CheckWatches struct {
		Path string
		Type int32
	}
	// RemoveWatches removes the watches of a path.
	RemoveWatches struct {
		Path string
		Type int32
	}
	// GetEphemerals lists the session's own nodes below a prefix.
	GetEphemerals struct{ Prefix string }
	// GetAllChildrenNumber counts a node's descendants.
	GetAllChildrenNumber struct{ Path string }
	// WhoAmI lists the session's identities.
	WhoAmI struct{}
	// Reconfig changes the members of the ensemble. What it asks for is not kept:
	// it is always refused.
	Reconfig struct{}
	// CloseSession ends the session.
	CloseSession struct{}
)

// ErrUnknownOp says that a request's operation is not one that this package reads.
var ErrUnknownOp = errors.New("unknown operation")

// ReadRequest reads the request that follows a header with this operation. Fields
// that are left over are an error too: they would mean another protocol than this.
func ReadRequest(op Op, r *Reader) (any, error) {
	req, err := readBody(op, r)
	switch {
	case err != nil:
		return nil, err
	case r.Err() != nil:
		return nil, fmt.Errorf("%v: %w", op, r.Err())
	}
	return req, nil
}

func readBody(op Op, r *Reader) (any, error) {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		c := Create{Op: op, Path: r.String(), Data: r.Bytes(), ACL: readACL(r), Flags: r.Int32()}
		if op == OpCreateTTL {
			c.TTL = r.Int64()
		}
		return c, nil
	case OpDelete:
		return Delete{Path: r.String(), Version: r.Int32()}, nil
	case OpSetData:
		return SetData{Path: r.String(), Data: r.Bytes(), Version: r.Int32()}, nil
	case OpSetACL:
		return SetACL{Path: r.String(), ACL: readACL(r), Version: r.Int32()}, nil
	case OpCheck:
		return Check{Path: r.String(), Version: r.Int32()}, nil
	case OpMulti:
		ops, err := readOps(r, OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck)
		return Multi{Ops: ops}, err
	case OpMultiRead:
		ops, err := readOps(r, OpGetData, OpGetChildren)
		return MultiRead{Ops: ops}, err
	case OpExists:
		return Exists{Path: r.String(), Watch: r.Bool()}, nil
	case OpGetData:
		return GetData{Path: r.String(), Watch: r.Bool()}, nil
	case OpGetACL:
		return GetACL{Path: r.String()}, nil
	case OpGetChildren, OpGetChildren2:
		return GetChildren{Path: r.String(), Watch: r.Bool(), WithStat: op == OpGetChildren2}, nil
	case OpSync:
		return Sync{Path: r.String()}, nil
	case OpPing:
		return Ping{}, nil
	case OpAuth:
		_ = r.Int32() // a type that nobody uses
		return Auth{Scheme: r.String(), Data: r.Bytes()}, nil
	case OpSetWatches:
		return SetWatches{RelativeZxid: r.Int64(), Data: r.Strings(), Exist: r.Strings(), Child: r.Strings()}, nil
	case OpSetWatches2:
		return SetWatches{
			RelativeZxid: r.Int64(), Data: r.Strings(), Exist: r.Strings(), Child: r.Strings(),
			Persistent: r.Strings(), PersistentRecursive: r.Strings(),
		}, nil
	case OpAddWatch:
		return AddWatch{Path: r.String(), Mode: r.Int32()}, nil
	case OpCheckWatches:
		return CheckWatches{Path: r.String(), Type: r.Int32()}, nil
	case OpRemoveWatches:
		return RemoveWatches{Path: r.String(), Type: r.Int32()}, nil
	case OpGetEphemerals:
		return GetEphemerals{Prefix: r.String()}, nil
	case OpGetAllChildrenNumber:
		return GetAllChildrenNumber{Path: r.String()}, nil
	case OpWhoAmI:
		return WhoAmI{}, nil
	case OpReconfig:
		for range 3 { // who joins, who leaves, the new members
			_ = r.String()
		}
		_ = r.Int64() // the configuration that it is about
		return Reconfig{}, nil
	case OpCloseSession:
		return CloseSession{}, nil
	}
	return nil, fmt.Errorf("%w: %v", ErrUnknownOp, op)
}

// readOps reads the parts of a transaction: each has a header, and the last one says
// that it is.
func readOps(r *Reader, allowed ...Op) ([]any, error) {
	var ops []any
	for r.Err() == nil {
		op, done := Op(r.Int32()), r.Bool()
		_ = r.Int32() // a code, of replies
		if done || r.Err() != nil {
			break
		}
		known := false
		for _, a := range allowed {
			known = known || a == op
		}
		if !known {
			return nil, fmt.Errorf("%w in a transaction: %v", ErrUnknownOp, op)
		}
		body, err := readBody(op, r)
		if err != nil {
			return nil, err
		}
		ops = append(ops, body)
	}
	return ops, nil
}

// PutMultiHeader begins the part of a transaction's reply that answers one operation,
// or its end.
func PutMultiHeader(w *Writer, op Op, done bool, code Code) {
	w.Int32(int32(op))
	w.Bool(done)
	w.Int32(int32(code))
}
