// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// An Outcome is the result of a request.
type Outcome struct {
	// Code is for the reply's header. For a multi it is OK even if the multi failed: the
	// failure is in its Results, and in Err.
	Code wire.Code
	// Op is the requested operation. In the results of a multi that was carried out it is
	// ZooKeeper's name for the result: OpCreate2 for a container and a TTL node, which are
	// answered with a Stat, and OpCreate for all other creates, create2 included. In a
	// failed multi each result is an error on the wire, even those with code OK.
	Op wire.Op
	// Path is the node's path; the path of a created node includes its number.
	Path string
	// Stat is the node's Stat after this operation: of a create, setData or setACL that
	// was carried out.
	Stat wire.Stat
	// Results are the outcomes of a multi's operations, in order.
	Results []Outcome
	// Changes are the changes that fire watches, in this order, including the changes of a
	// multi's operations.
	Changes []Change
	// Removed are the ephemeral nodes that were deleted with a session, sorted.
	Removed []string
}

// Err returns Code, or for a failed multi the code of its failed operation.
func (o Outcome) Err() wire.Code {
	for _, r := range o.Results {
		if r.Code != wire.OK {
			return r.Code
		}
	}
	return o.Code
}

// A Change is a change of one node: its creation or deletion, or a change of its data.
// The first two imply a change of its parent's children. The ACLs are the node's and its
// parent's at that moment, because only clients that may read a node receive its events.
type Change struct {
	Type           wire.EventType
	Path           string
	ACL, ParentACL []wire.ACL
}

// Readable reports whether one of the identities may read a node with this ACL.
func Readable(acl []wire.ACL, ids []Identity) bool { return permits(acl, wire.PermRead, ids) }
