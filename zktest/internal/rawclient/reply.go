// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A ConnectReply is the answer to a connection's first frame, with all of its fields.
type ConnectReply struct {
	Protocol int32
	Timeout  int32 // milliseconds
	Session  int64 // 0: the requested one has ended
	Password []byte
	ReadOnly *bool // nil if the server left it out
}

func readConnectReply(frame []byte) (ConnectReply, error) {
	r := wire.NewReader(frame)
	c := ConnectReply{Protocol: r.Int32(), Timeout: r.Int32(), Session: r.Int64(), Password: r.Bytes()}
	if r.Len() > 0 {
		readOnly := r.Bool()
		c.ReadOnly = &readOnly
	}
	return c, requireEnd(r)
}

// requireEnd returns the Reader's error, or an error if bytes follow the last field.
func requireEnd(r *wire.Reader) error {
	if r.Err() == nil && r.Len() > 0 {
		return fmt.Errorf("%d bytes follow the last field", r.Len())
	}
	return r.Err()
}

// An Event is a watch event.
type Event struct {
	Type  wire.EventType
	State int32
	Path  string
}

// Event decodes the body of an event.
func (p Packet) Event() (Event, error) {
	r := wire.NewReader(p.Body)
	e := Event{Type: wire.EventType(r.Int32()), State: r.Int32(), Path: r.String()}
	return e, requireEnd(r)
}

// A Reply is the decoded body of a reply. The operation decides which fields are set; the others are nil.
type Reply struct {
	Path       *string
	Data       *[]byte // nil bytes if the server sent none
	Stat       *wire.Stat
	ACL        *[]wire.ACL
	Names      *[]string // children or ephemeral nodes; nil names if the server sent no vector
	Count      *int32
	Identities *[]Identity
	Results    *[]Result // of a transaction
	Code       *wire.Code
	Trailing   int // number of bytes after the last field
}

// An Identity is an entry in the answer to whoAmI.
type Identity struct{ Scheme, User string }

// A Result is the answer to one operation in a transaction's reply.
type Result struct {
	Op   wire.Op
	Code wire.Code
	Reply
}

// Reply decodes the body of the reply to a request of this operation. An error reply has none.
func (p Packet) Reply(op wire.Op) (Reply, error) {
	if len(p.Body) == 0 {
		return Reply{}, nil
	}
	r := wire.NewReader(p.Body)
	var reply Reply
	switch op {
	case wire.OpMulti, wire.OpMultiRead:
		results := readResults(r)
		reply.Results = &results
	default:
		reply = readReply(r, op)
	}
	reply.Trailing = r.Len()
	return reply, r.Err()
}

func readReply(r *wire.Reader, op wire.Op) Reply {
	switch op {
	case wire.OpCreate, wire.OpSync:
		return Reply{Path: ptr(r.String())}
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return Reply{Path: ptr(r.String()), Stat: ptr(wire.ReadStat(r))}
	case wire.OpExists, wire.OpSetData, wire.OpSetACL:
		return Reply{Stat: ptr(wire.ReadStat(r))}
	case wire.OpGetData:
		return Reply{Data: ptr(r.Bytes()), Stat: ptr(wire.ReadStat(r))}
	case wire.OpGetACL:
		return Reply{ACL: ptr(wire.ReadACL(r)), Stat: ptr(wire.ReadStat(r))}
	case wire.OpGetChildren, wire.OpGetEphemerals:
		return Reply{Names: ptr(readNames(r))}
	case wire.OpGetChildren2:
		return Reply{Names: ptr(readNames(r)), Stat: ptr(wire.ReadStat(r))}
	case wire.OpGetAllChildrenNumber:
		return Reply{Count: ptr(r.Int32())}
	case wire.OpWhoAmI:
		ids := make([]Identity, r.Count(8))
		for i := range ids {
			ids[i] = Identity{Scheme: r.String(), User: r.String()}
		}
		return Reply{Identities: &ids}
	case wire.OpError, wire.OpAddWatch:
		return Reply{Code: ptr(wire.Code(r.Int32()))}
	}
	return Reply{}
}

// readNames returns nil for a null vector, and an empty slice for an empty one.
func readNames(r *wire.Reader) []string {
	n := r.Int32()
	if n < 0 {
		return nil
	}
	names := []string{}
	for ; n > 0 && r.Err() == nil; n-- {
		names = append(names, r.String())
	}
	return names
}

func readResults(r *wire.Reader) []Result {
	results := []Result{}
	for r.Err() == nil {
		op, done, code := wire.Op(r.Int32()), r.Bool(), wire.Code(r.Int32())
		if done || r.Err() != nil {
			break
		}
		results = append(results, Result{Op: op, Code: code, Reply: readReply(r, op)})
	}
	return results
}

func ptr[T any](v T) *T { return &v }
