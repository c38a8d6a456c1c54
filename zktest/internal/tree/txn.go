// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// A Txn is the leader's decision on a request. It describes the changes, not the request,
// so that every server that applies it makes the same ones. Txns and their contents are
// never modified, and may be shared.
type Txn struct {
	Zxid    int64
	Time    int64 // milliseconds since 1970
	Session int64 // that sent the request
	Body    any   // one of the types below, private to this package
}

// The bodies of a Txn. Each implies or names the operation in the request's answer.
type (
	createTxn struct {
		op       wire.Op
		path     string // with its number, if it is sequential
		data     []byte
		acl      []wire.ACL
		lifetime lifetime
		owner    int64
		// counter is the parent's new counter, if that is greater.
		counter int32
	}
	deleteTxn struct {
		op   wire.Op
		path string
	}
	setDataTxn struct {
		path    string
		data    []byte
		version int32 // the new one
	}
	setACLTxn struct {
		path    string
		acl     []wire.ACL
		version int32 // the new one
	}
	checkTxn struct{ path string }
	// multiTxn contains either changes and checks, or only errorTxns.
	multiTxn struct{ ops []any }
	// openSessionTxn changes nothing.
	openSessionTxn struct{}
	// closeSessionTxn names the deleted nodes, so that servers need no other agreement on a
	// session's nodes.
	closeSessionTxn struct{ paths []string }
	// errorTxn changes nothing. In a multiTxn its code may be OK: this operation was valid,
	// another was not.
	errorTxn struct {
		op   wire.Op
		path string
		code wire.Code
	}
)
