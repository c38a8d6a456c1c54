// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
)

// Decoded requests that change nodes:
type (
	// Create is a create, create2, createContainer or createTTL.
	Create struct {
		Op    Op
		Path  string
		Data  []byte
		ACL   []ACL
		Flags int32
		TTL   int64 // milliseconds, of createTTL
	}
	// Delete deletes a node.
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
	// Check requires that a node has a version, within a transaction.
	Check struct {
		Path    string
		Version int32
	}
	// Multi is a transaction of Create, Delete, SetData and Check.
	Multi struct{ Ops []any }
)

// Decoded requests that read nodes, or concern the session:
type (
	// Exists reads a node's Stat.
	Exists struct {
		Path  string
		Watch bool
	}
	// GetData reads a node's data.
	GetData struct {
		Path  string
		Watch bool
	}
	// GetACL reads a node's ACL.
	GetACL struct{ Path string }
	// GetChildren is getChildren and, with the node's Stat, getChildren2.
	GetChildren struct {
		Path     string
		Watch    bool
		WithStat bool
	}
	// MultiRead is several GetData and GetChildren in one request.
	MultiRead struct{ Ops []any }
	// Sync brings the server up to date with the leader.
	Sync struct{ Path string }
	// Ping keeps a session alive.
	Ping struct{}
	// Auth presents a credential.
	Auth struct {
		Scheme string
		Data   []byte
	}
	// SASL presents a token of a SASL mechanism.
	SASL struct{ Token []byte }
	// SetWatches restores watches after a reconnection. Only setWatches2 has the last two
	// fields.
	SetWatches struct {
		RelativeZxid                                        int64
		Data, Exist, Child, Persistent, PersistentRecursive []string
	}
	// AddWatch sets a persistent watch: mode 0, or 1 for recursive.
	AddWatch struct {
		Path string
		Mode int32
	}
	// CheckWatches looks for a watch of a type: 1 children, 2 data, 3 any, 4 persistent,
	// 5 persistent recursive.
	CheckWatches struct {
		Path string
		Type int32
	}
	// RemoveWatches removes the watches of a type, as in CheckWatches.
	RemoveWatches struct {
		Path string
		Type int32
	}
	// GetEphemerals lists the session's ephemeral nodes below a prefix.
	GetEphemerals struct{ Prefix string }
	// GetAllChildrenNumber counts a node's descendants.
	GetAllChildrenNumber struct{ Path string }
	// WhoAmI lists the session's identities.
	WhoAmI struct{}
	// Reconfig changes the members of the ensemble. Its fields are not decoded, because it
	// is always refused.
	Reconfig struct{}
	// CloseSession ends the session.
	CloseSession struct{}
)

// childWatches is the type of the watches on children, in CheckWatches.
const childWatches = 1

// ErrUnknownOp is the error for a request with an operation that this package cannot
// decode.
var ErrUnknownOp = errors.New("unknown operation")

// ErrNull is the error for a request with a null in place of what ZooKeeper needs to carry it
// out: there, an exception in Java.
var ErrNull = errors.New("a field is null")

// ReadRequest reads the request that follows a header with this operation. It does not
// read bytes after the last field.
func ReadRequest(op Op, r *Reader) (any, error) {
	req, err := readBody(op, r)
	switch {
	case err != nil:
		return nil, err
	case r.Err() != nil:
		return nil, fmt.Errorf("%v: %w", op, r.Err())
	case r.missing:
		return nil, fmt.Errorf("%v: %w", op, ErrNull)
	}
	return req, nil
}

func readBody(op Op, r *Reader) (any, error) {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		// Where createTTL is disabled, it is refused first.
		c := Create{Op: op, Path: r.needed(op != OpCreateTTL || r.transaction), Data: r.Bytes(), ACL: ReadACL(r), Flags: r.Int32()}
		if op == OpCreateTTL {
			c.TTL = r.Int64()
		}
		return c, nil
	case OpDelete:
		return Delete{Path: r.needed(true), Version: r.Int32()}, nil
	case OpSetData:
		return SetData{Path: r.needed(r.transaction), Data: r.Bytes(), Version: r.Int32()}, nil
	case OpSetACL:
		return SetACL{Path: r.String(), ACL: ReadACL(r), Version: r.Int32()}, nil
	case OpCheck:
		return Check{Path: r.needed(r.transaction), Version: r.Int32()}, nil
	case OpMulti:
		ops, err := readOps(r, OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck)
		return Multi{Ops: ops}, err
	case OpMultiRead:
		ops, err := readOps(r, OpGetData, OpGetChildren)
		return MultiRead{Ops: ops}, err
	case OpExists:
		return Exists{Path: r.needed(true), Watch: r.Bool()}, nil
	case OpGetData:
		return GetData{Path: r.needed(true), Watch: r.Bool()}, nil
	case OpGetACL:
		return GetACL{Path: r.needed(true)}, nil
	case OpGetChildren, OpGetChildren2:
		return GetChildren{Path: r.needed(true), Watch: r.Bool(), WithStat: op == OpGetChildren2}, nil
	case OpSync:
		return Sync{Path: r.String()}, nil
	case OpPing:
		return Ping{}, nil
	case OpAuth:
		_ = r.Int32() // the unused type
		return Auth{Scheme: r.String(), Data: r.Bytes()}, nil
	case OpSASL:
		return SASL{Token: r.Bytes()}, nil
	case OpSetWatches:
		return SetWatches{RelativeZxid: r.Int64(), Data: r.strings(), Exist: r.strings(), Child: r.strings()}, nil
	case OpSetWatches2:
		return SetWatches{
			RelativeZxid: r.Int64(), Data: r.strings(), Exist: r.strings(), Child: r.strings(),
			Persistent: r.strings(), PersistentRecursive: r.strings(),
		}, nil
	case OpAddWatch:
		return AddWatch{Path: r.needed(true), Mode: r.Int32()}, nil
	case OpCheckWatches:
		path, kind := r.Bytes(), r.Int32()
		r.missing = path == nil && kind == childWatches
		return CheckWatches{Path: javaText(path), Type: kind}, nil
	case OpRemoveWatches:
		return RemoveWatches{Path: r.String(), Type: r.Int32()}, nil
	case OpGetEphemerals:
		return GetEphemerals{Prefix: r.String()}, nil
	case OpGetAllChildrenNumber:
		return GetAllChildrenNumber{Path: r.needed(true)}, nil
	case OpWhoAmI:
		return WhoAmI{}, nil
	case OpReconfig:
		for range 3 { // the joining servers, the leaving servers, the new members
			_ = r.String()
		}
		_ = r.Int64() // the version of the current configuration
		return Reconfig{}, nil
	case OpCloseSession:
		return CloseSession{}, nil
	}
	return nil, fmt.Errorf("%w: %v", ErrUnknownOp, op)
}

// readOps reads the operations of a transaction: each has a header, and a final header
// ends them.
func readOps(r *Reader, allowed ...Op) ([]any, error) {
	var ops []any
	r.transaction = true
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
			return nil, fmt.Errorf("transaction: %w: %v", ErrUnknownOp, op)
		}
		body, err := readBody(op, r)
		if err != nil {
			return nil, err
		}
		ops = append(ops, body)
	}
	return ops, nil
}
