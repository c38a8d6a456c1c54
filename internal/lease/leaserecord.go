// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
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
	Revoked   *recipes.Revocation

	created created
}

// created are the fields of a record that its later writes preserve.
type created struct {
	host, nonce string
	pid         int
	time        time.Time
}

// encode returns the lease's record in JSON.
func (l *Lease) encode() ([]byte, error) {
	data, err := json.Marshal(protocol.Record{
		Format: 1, Kind: protocol.KindLease,
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
	ttl, ok := r.LeaseTTL()
	if !ok {
		return nil
	}
	return &Lease{
		TTL: ttl, Held: r.Held, Write: r.Write, Principal: r.Principal,
		Owner: r.Owner, Reentrant: r.Reentrant, Metadata: r.Metadata, Requests: r.Requests, Closed: r.Closed,
		Revoked: (*recipes.Revocation)(r.Revoked),
		created: created{host: r.Host, pid: r.PID, nonce: r.Nonce, time: r.Time},
	}
}

// A Contender is a contender with its lease.
type Contender struct {
	recipes.Contender
	Lease *Lease // nil unless it is a lease
}

// contenderOf returns the contender whose node a read has returned.
func contenderOf(name string, data []byte, stat *zk.Stat) Contender {
	c := Contender{Contender: queue.ContenderOf(name, data, stat)}
	if c.Kind == recipes.KindLease {
		r := protocol.DecodeRecord(data)
		c.Lease = leaseOf(&r)
	}
	return c
}

// revoke returns the record of a session's contender with the revocation added, and everything
// else in it preserved: the client searches for its nonce.
func revoke(data []byte, r recipes.Revocation) ([]byte, error) {
	return protocol.Amend(data, "revoked", r)
}
