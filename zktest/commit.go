// SPDX-License-Identifier: Apache-2.0

package zktest

import "time"

// A Commit is a transaction that the ensemble has carried out: a request of a client, a
// deletion by the servers or the test, or the end of a session.
type Commit struct {
	Zxid    int64
	Time    time.Time
	Session int64  // that sent the request, or that ended; 0 for a request without a session
	Op      string // "create", "setData", "multi", "createSession", "closeSession", …
	Path    string // of the node, with the number of a sequential one
	Data    []byte // of a create or setData; it must not be changed
	Err     error  // a refusal: it changes nothing, but has a zxid
	Ops     []Commit
	Removed []string // of closeSession: the session's ephemeral nodes
	Expired bool     // of closeSession: the session expired, its client did not close it
}
