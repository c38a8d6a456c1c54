// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// An Outcome is what a request is answered.
type Outcome struct {
	// Code goes into the reply's header. That of a multi is OK even if it failed: its
	// Results say so, and Err.
	Code wire.Code
	// Op is what was asked for. In a multi that was carried out it is what ZooKeeper
	// names a result by: OpCreate2 for a container and a TTL node, which are answered
	// with a Stat, and OpCreate for all others, create2 too. In one that failed, each
	// result is an error on the wire, those of code OK too.
	Op wire.Op
	// Path is the node's, of a created one with its number.
	Path string
	// Stat is the node's as of this very operation: of a create, setData or setACL that
	// was carried out.
	Stat wire.Stat
	// Results are those of a multi's operations, in their order.
	Results []Outcome
	// Changes are what watches are told, in this order; those of a multi's operations
	// are here too.
	Changes []Change
	// Removed are the ephemeral nodes that went with a session, sorted.
	Removed []string
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

// A Change is what happened to one node: it was created or deleted, or its data was
// changed. That its parent's children changed follows from the first two. The ACLs are
// the node's and its parent's at that moment, for only those who may read a node are
// told of it.
type Change struct {
	Type           wire.EventType
	Path           string
	ACL, ParentACL []wire.ACL
}

// Readable reports whether one of the identities may read a node with this ACL.
func Readable(acl []wire.ACL, who []Identity) bool { return permits(acl, wire.PermRead, who) }
