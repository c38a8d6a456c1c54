// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

// A Kind is a kind of contender.
type Kind string

// The kinds of contenders. Those of other libraries have none.
const (
	KindSession Kind = "session" // its node belongs to a session
	KindLease   Kind = "lease"   // its node is persistent, and ends with its TTL
)

// A Lease is the record of a contender of kind KindLease, whose holder has no session. Package
// lease states the rules by which it is written.
type Lease struct {
	TTL       time.Duration
	Held      bool   // written as held; otherwise the contender waits
	Write     string // a random id of this write
	Principal string // whom the service has authenticated
	Owner     string
	Reentrant bool // several requests of the principal and owner may share the lease
	Metadata  map[string]string
	Requests  []string // that hold or await the lease, as hashes
	Closed    []string // that have released it
	Revoked   *Revocation

	created created
}

// created are the fields of a record that its later writes preserve.
type created struct {
	host, nonce string
	pid         int
	time        time.Time
}

// A Revocation is an administrator's decision to end a claim or a lease.
type Revocation struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// encode returns the lease's record in JSON.
func (l *Lease) encode() ([]byte, error) {
	data, err := json.Marshal(protocol.Record{
		Format: 1, Kind: string(KindLease),
		Owner: l.Owner, Host: l.created.host, PID: l.created.pid, Nonce: l.created.nonce, Time: l.created.time,
		Revoked: (*protocol.Revocation)(l.Revoked),
		TTL:     l.TTL.Milliseconds(), Held: l.Held, Write: l.Write, Principal: l.Principal, Reentrant: l.Reentrant,
		Metadata: l.Metadata, Requests: l.Requests, Closed: l.Closed,
	})
	if err != nil {
		return nil, fmt.Errorf("encode lease of %q: %w", l.Owner, err)
	}
	return data, nil
}

// leaseOf returns the lease that the record describes, nil if it describes none.
func leaseOf(r *protocol.Record) *Lease {
	if r.Kind != string(KindLease) || r.TTL <= 0 || r.TTL > math.MaxInt64/int64(2*time.Millisecond) {
		return nil
	}
	return &Lease{
		TTL: time.Duration(r.TTL) * time.Millisecond, Held: r.Held, Write: r.Write, Principal: r.Principal,
		Owner: r.Owner, Reentrant: r.Reentrant, Metadata: r.Metadata, Requests: r.Requests, Closed: r.Closed,
		Revoked: (*Revocation)(r.Revoked),
		created: created{host: r.Host, pid: r.PID, nonce: r.Nonce, time: r.Time},
	}
}

// revoke returns the record of a session's contender with the revocation added, and everything
// else in it preserved: the client searches for its nonce.
func revoke(data []byte, r Revocation) ([]byte, error) {
	return protocol.Amend(data, "revoked", r)
}
