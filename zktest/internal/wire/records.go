// SPDX-License-Identifier: Apache-2.0

package wire

// A Stat is a node's metadata. Times are milliseconds since 1970.
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

// An ACL is one entry of an access control list: the permissions of one identity.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

// World is the ACL that grants all permissions to every client.
var World = []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"}}

// ReadACL reads a vector of entries.
func ReadACL(r *Reader) []ACL {
	n := r.Count(12)
	acl := make([]ACL, 0, n)
	for range n {
		perms, scheme := r.Int32(), r.String()
		needs := scheme == "world" || scheme == "digest" || scheme == "ip"
		acl = append(acl, ACL{Perms: perms, Scheme: scheme, ID: r.needed(needs)})
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

// A ConnectRequest is the first frame of a connection.
type ConnectRequest struct {
	Protocol int32
	LastZxid int64 // the last that the client has seen
	Timeout  int32 // requested, in milliseconds
	Session  int64 // to attach to; 0 for a new one
	Password []byte
	// ReadOnly is a later addition: clients that do not know it neither send it nor
	// expect it in the reply.
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

// Frame returns the request as a frame.
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

// A ConnectReply answers a ConnectRequest. Session 0 means that the requested session has
// ended.
type ConnectReply struct {
	Timeout       int32
	Session       int64
	Password      []byte
	KnowsReadOnly bool
}

// Frame returns the reply as a frame.
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

// A Header precedes each request after the first.
type Header struct {
	Xid int32
	Op  Op
}

// ReadHeader reads a Header.
func ReadHeader(r *Reader) Header { return Header{Xid: r.Int32(), Op: Op(r.Int32())} }

// A ReplyHeader precedes each reply and each event.
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

// EventFrame returns a watch event as a frame.
func EventFrame(kind EventType, path string) []byte {
	w := NewWriter()
	ReplyHeader{Xid: XidWatchEvent, Zxid: -1}.Put(w)
	w.Int32(int32(kind))
	w.Int32(StateSyncConnected)
	w.String(path)
	return w.Frame()
}

// PutMultiHeader writes the header that precedes one operation, or one result, of a
// transaction, or that ends it.
func PutMultiHeader(w *Writer, op Op, done bool, code Code) {
	w.Int32(int32(op))
	w.Bool(done)
	w.Int32(int32(code))
}
