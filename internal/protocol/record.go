// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// MaxOwner bounds an owner label, in bytes. Every waiter reads the record of the
// node ahead of it, so a label is a name and not for storing data.
const MaxOwner = 4096

// A Record is the data of a contender's node. A contender of a session writes it once,
// by the create, and again only if it is downgraded or revoked: a write wakes the contenders that
// watch the node, and the record of another client ends the claim. The record of a lease is written again by
// each renewal.
type Record struct {
	Format int       `json:"format"` // 1
	Owner  string    `json:"owner"`
	Host   string    `json:"host"`
	PID    int       `json:"pid"`
	Nonce  string    `json:"nonce"` // names the attempt, to find a node whose creation was not answered
	Time   time.Time `json:"time"`  // by the clock of the contender's host

	Kind    string      `json:"kind,omitempty"`           // of a lease; empty for a session's contender
	Timeout int64       `json:"sessionTimeout,omitempty"` // in ms, of the node's session
	Revoked *Revocation `json:"revoked,omitempty"`
	Shared  bool        `json:"shared,omitempty"` // a writer's claim that was downgraded
	Slot    *int        `json:"slot,omitempty"`   // the number of a slot

	// Of a lease.
	TTL       int64             `json:"ttl,omitempty"` // in ms
	Held      bool              `json:"held,omitempty"`
	Write     string            `json:"write,omitempty"`
	Principal string            `json:"principal,omitempty"`
	Reentrant bool              `json:"reentrant,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Requests  []string          `json:"requests,omitempty"`
	Closed    []string          `json:"closed,omitempty"`
}

// A Revocation is an administrator's decision to end a claim or a lease.
type Revocation struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// An Encoder encodes the records of one queue. Their common part is encoded once, as
// the record is most of this client's work for an uncontended lock.
type Encoder struct{ head, tail []byte }

// NewEncoder returns the Encoder of records of that owner, host and process id.
func NewEncoder(owner, host string, pid int) (*Encoder, error) {
	r := Record{Format: 1, Owner: owner, Host: host, PID: pid}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of %q: %w", owner, err)
	}
	// The two fields that differ come last, in order.
	i := bytes.LastIndex(data, []byte(`,"nonce":`))
	return &Encoder{head: append(data[:i:i], `,"nonce":"`...), tail: []byte(`","time":"`)}, nil
}

// Encode returns the record of one attempt, in JSON. The nonce is plain ASCII. timeout is that
// of the session: a lock service that revokes the claim knows by it when the claim has ended. now is by the clock of this host.
func (e *Encoder) Encode(nonce string, timeout time.Duration, now time.Time) []byte {
	data := make([]byte, 0, len(e.head)+len(nonce)+len(e.tail)+len(time.RFC3339Nano)+40)
	data = append(data, e.head...)
	data = append(data, nonce...)
	data = append(data, e.tail...)
	data = now.UTC().AppendFormat(data, time.RFC3339Nano)
	data = append(data, `","sessionTimeout":`...)
	data = strconv.AppendInt(data, timeout.Milliseconds(), 10)
	return append(data, '}')
}

// DecodeRecord reads the data of a contender's node. Nodes of other libraries
// can hold any data, the beginning of which becomes the owner.
func DecodeRecord(data []byte) Record {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil || r.Format != 1 {
		return Record{Owner: string(data[:min(len(data), MaxOwner)])}
	}
	return r
}

// Downgraded reports whether the record, of a contender of that mode, belongs to a downgraded
// claim.
func (r *Record) Downgraded(mode Mode) bool { return mode == Write && r.Format == 1 && r.Shared }

// Amend returns a record with one field set, and everything else in it preserved.
func Amend(data []byte, field string, value any) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", field, err)
	}
	fields[field] = encoded
	return json.Marshal(fields)
}

// KindLease is the Kind of a record whose node is persistent, and ends with its TTL.
const KindLease = "lease"

// LeaseTTL returns the TTL of a lease, and whether the record is one.
func (r *Record) LeaseTTL() (ttl time.Duration, ok bool) {
	if r.Kind != KindLease || r.TTL <= 0 || r.TTL > math.MaxInt64/int64(2*time.Millisecond) {
		return 0, false
	}
	return time.Duration(r.TTL) * time.Millisecond, true
}
