// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// A Txn is what a request came to, as the leader decided it. It says what is to be
// done, not what was asked: every server that applies it does the same. Txns and what
// they hold are never changed, and may be shared.
type Txn struct {
	Zxid    int64
	Time    int64 // milliseconds since 1970
	Session int64 // whose request it was
	Body    any   // one of the types below, and nobody else's concern
}

// The bodies of a Txn. Each knows the operation that the request is answered as.
type (
	createTxn struct {
		op    wire.Op
		path  string // with its number, if it is sequential
		data  []byte
		acl   []wire.ACL
		life  life
		owner int64
		// counter is what the parent's is raised to; it is never lowered.
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
	// multiTxn has either what is to be done, or only errorTxns.
	multiTxn struct{ ops []any }
	// openSessionTxn changes nothing.
	openSessionTxn struct{}
	// closeSessionTxn names what goes, so that servers need not agree on a session's
	// nodes otherwise.
	closeSessionTxn struct{ paths []string }
	// errorTxn changes nothing. As a part of a multiTxn its code may be OK: this part
	// was in order, another was not.
	errorTxn struct {
		op   wire.Op
		path string
		code wire.Code
	}
)
