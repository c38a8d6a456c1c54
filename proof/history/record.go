// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"time"
)

// A Record is what a history states of a contender's record.
type Record struct {
	Lease   Instant // TTL of a lease, 0 of another contender
	Held    bool    // the lease is written as held
	Revoked bool
	Shared  bool // of a writer which was downgraded
}

// RecordOf parses the data of a node independently of package recipes. ok is false if it is no contender's record.
func RecordOf(data []byte) (r Record, ok bool) {
	var text struct {
		Nonce   string          `json:"nonce"` // of each contender of the library and of the service
		Kind    string          `json:"kind"`
		TTL     int64           `json:"ttl"` // ms
		Held    bool            `json:"held"`
		Revoked json.RawMessage `json:"revoked"`
		Shared  bool            `json:"shared"`
	}
	if json.Unmarshal(data, &text) != nil || text.Nonce == "" {
		return Record{}, false
	}
	r.Revoked, r.Shared = len(text.Revoked) > 0, text.Shared
	if text.Kind == "lease" {
		r.Lease, r.Held = Instant(time.Duration(text.TTL)*time.Millisecond), text.Held
	}
	return r, true
}

// Renewed returns the event of a record's later version, from the event of the write that committed it.
func (r Record) Renewed(e Event) Event {
	e.Kind, e.Lease, e.Held = Renewed, r.Lease, r.Held
	if r.Revoked {
		e.Cause = Revoked
	}
	return e
}
