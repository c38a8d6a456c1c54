// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// Requests that no client's frame decodes to.
type (
	// DeleteContainer is the leader's own: it deletes a container or a TTL node that
	// Reapable named, unless it has a child by now.
	DeleteContainer struct{ Path string }

	// OpenSession makes a session known. It changes no node, but has a zxid.
	OpenSession struct{ Timeout int32 }

	// Refused is a request that was refused before it came to the tree, and yet has a
	// zxid: one that could not be decoded, for instance.
	Refused struct {
		Op   wire.Op
		Code wire.Code
	}
)

// A Txn is what a request came to, as the leader decided it. It says what is to be
// done, not what was asked: every server that applies it does the same. Txns and what
// they hold are never changed, and may be shared.
type Txn struct {
	Zxid    int64
	Time    int64 // milliseconds since 1970
	Session int64 // whose request it was
	Body    any   // one of this package's …Txn types
}

// The bodies of a Txn.
type (
	// CreateTxn creates a node. Op tells create, create2, createContainer and
	// createTTL apart, for the reply.
	CreateTxn struct {
		Op    wire.Op
		Path  string // with its number, if it is sequential
		Data  []byte
		ACL   []wire.ACL
		Owner int64 // as Stat's EphemeralOwner
		// ParentCounter is what the parent's counter of creations is raised to; it is
		// never lowered.
		ParentCounter int32
	}
	// DeleteTxn deletes a node.
	DeleteTxn struct {
		Op   wire.Op
		Path string
	}
	// SetDataTxn replaces a node's data.
	SetDataTxn struct {
		Path    string
		Data    []byte
		Version int32 // the new one
	}
	// SetACLTxn replaces a node's ACL.
	SetACLTxn struct {
		Path    string
		ACL     []wire.ACL
		Version int32 // the new one
	}
	// CheckTxn changes nothing: the node had the version that was asked for.
	CheckTxn struct{ Path string }
	// MultiTxn does several things at once.
	MultiTxn struct{ Ops []any }
	// OpenSessionTxn changes nothing.
	OpenSessionTxn struct{ Timeout int32 }
	// CloseSessionTxn deletes the session's ephemeral nodes.
	CloseSessionTxn struct{ Paths []string }
	// ErrorTxn changes nothing: the request was refused. As part of a MultiTxn, which
	// then has no other parts, Code may be OK: it was in order, another was not.
	ErrorTxn struct {
		Op   wire.Op
		Path string
		Code wire.Code
	}
)

// An Outcome is what a request is answered.
type Outcome struct {
	// Code goes into the reply's header. That of a multi is OK even if it failed: its
	// Results say so, and Err.
	Code wire.Code
	// Op is what was asked for. In a multi that was carried out, the operations are
	// those that ZooKeeper names in the reply: it takes a create2 for a create, and
	// tells containers by their flag. In one that failed, each result is on the wire
	// an error, code OK included.
	Op   wire.Op
	Path string // of a created node with its number
	// Stat is the node's as of this very operation, if it was carried out and
	// the operation is a create, setData or setACL.
	Stat    wire.Stat
	Results []Outcome // of a multi
	Changes []Change  // those of a multi's parts too, in their order: what watches are told
	Removed []string  // the ephemeral nodes that went with a session
}

// Err is Code, or for a multi the code of the operation that it failed for.
func (o Outcome) Err() wire.Code {
	for _, r := range o.Results {
		if r.Code != wire.OK {
			return r.Code
		}
	}
	return o.Code
}

// A Change is what happened to one node: created, deleted or data changed. That the
// parent's children changed follows from the first two.
type Change struct {
	Type wire.EventType
	Path string
}
