// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Contender is one member of the queue: a waiter or the holder.
type Contender struct {
	Name    string        // of its node, below the queue's path
	Token   fencing.Token // that it has, or will have when it reaches the front
	Owner   string        // label; for nodes that other libraries created, their data
	Host    string        // empty if another library created the node
	PID     int           // 0 if another library created the node
	Since   time.Time     // when it joined, by the clock of its host
	Session int64         // the session that its node belongs to, 0 for a lease
	Kind    Kind          // empty if another library created the node
	Shared  bool          // it is a reader, or a writer that was downgraded
	Permits int           // that it has or waits for; 0 unless it is a contender of Permits

	Priority int // of its Candidacy, 0 for other contenders

	TTL     time.Duration // of a lease; otherwise the timeout of its session, 0 if that is not known
	Held    bool          // of a lease or of permits: written as held. Otherwise its position decides
	Revoked *Revocation   // nil unless it is revoked
	Version int32         // of its node
	Written time.Time     // when this version was written, by the clock of the ensemble's leader
}

// A Kind is a kind of contender.
type Kind string

// The kinds of contenders. Contenders of other libraries have none.
const (
	KindSession Kind = "session" // its node belongs to a session
	KindLease   Kind = "lease"   // its node is persistent, and ends with its TTL
)

// A Revocation is an administrator's decision to end a claim or a lease.
type Revocation struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// A BusyError is the error that Trace.Failed gets when a queue that was tried is not empty.
type BusyError struct {
	Path  string    // of the queue
	Front Contender // the first contender; without a Name if the contenders that were first have left
	Taken int       // permits that contenders have or wait for; 0 unless permits were tried
}

// Error names the first contender, if it is known.
func (e *BusyError) Error() string {
	if e.Front.Name == "" {
		return e.Path + " was taken by other contenders during the call, which have left"
	}
	return fmt.Sprintf("%s is held by %q (%s)", e.Path, e.Front.Owner, e.Front.Name)
}
