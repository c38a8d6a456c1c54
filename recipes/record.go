// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// maxOwner bounds an owner label, in bytes. Every waiter reads the record of the
// node ahead of it, so a label is a name and not for storing data.
const maxOwner = 4096

// maxTransaction bounds the operations of one transaction, in bytes: a server drops
// the connection without an answer if a packet is larger than its jute.maxbuffer,
// 1 048 575 bytes by default.
const maxTransaction = 1<<20 - 1

// parentMark is the data of a parent that this library may write.
const parentMark = "lockkeeper/1"

// A record is the data of a contender's node. That of a session's contender is written once,
// by the create, and again only if it is revoked: a write wakes the contender that watches the
// node, and ends the claim. That of a lease is written again by each renewal.
type record struct {
	Format int       `json:"format"` // 1
	Owner  string    `json:"owner"`
	Host   string    `json:"host"`
	PID    int       `json:"pid"`
	Nonce  string    `json:"nonce"` // names the attempt, to find a node whose creation was not answered
	Time   time.Time `json:"time"`  // by the clock of the contender's host

	Kind    Kind        `json:"kind,omitempty"`
	Timeout int64       `json:"sessionTimeout,omitempty"` // in ms, of the node's session
	Revoked *Revocation `json:"revoked,omitempty"`

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

// A recordEncoder encodes the records of one queue. Their common part is encoded once, as
// the record is most of this client's work for an uncontended lock.
type recordEncoder struct{ head, tail []byte }

func newRecordEncoder(owner, host string) (*recordEncoder, error) {
	r := record{Format: 1, Owner: owner, Host: host, PID: os.Getpid()}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of %q: %w", owner, err)
	}
	// The two fields that differ come last, in order.
	i := bytes.LastIndex(data, []byte(`,"nonce":`))
	return &recordEncoder{head: append(data[:i:i], `,"nonce":"`...), tail: []byte(`","time":"`)}, nil
}

// encode returns the record of one attempt, in JSON. The nonce is plain ASCII. timeout is that
// of the session: a lock service that revokes the claim knows by it when the claim has ended.
func (e *recordEncoder) encode(nonce string, timeout time.Duration) []byte {
	data := make([]byte, 0, len(e.head)+len(nonce)+len(e.tail)+len(time.RFC3339Nano)+40)
	data = append(data, e.head...)
	data = append(data, nonce...)
	data = append(data, e.tail...)
	data = time.Now().UTC().AppendFormat(data, time.RFC3339Nano)
	data = append(data, `","sessionTimeout":`...)
	data = strconv.AppendInt(data, timeout.Milliseconds(), 10)
	return append(data, '}')
}

// nonces generates the names of attempts, which are unique across processes.
type nonces struct {
	process string // drawn at random
	last    atomic.Uint64
}

func newNonces() *nonces { return &nonces{process: rand.Text()} }

func (n *nonces) next() string { return n.process + strconv.FormatUint(n.last.Add(1), 36) }

// decodeRecord reads the data of a contender's node. Nodes of other libraries
// can hold any data, the beginning of which becomes the owner.
func decodeRecord(data []byte) record {
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r.Format != 1 {
		return record{Owner: string(data[:min(len(data), maxOwner)])}
	}
	return r
}

// hostname returns the host's name for display.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// defaultOwner returns the owner label if the caller gives none: host and process id.
func defaultOwner() string { return fmt.Sprintf("%s/%d", hostname(), os.Getpid()) }

// CheckOwner returns what is wrong with an owner label, nil if nothing is.
func CheckOwner(owner string) error {
	if len(owner) > maxOwner {
		return fmt.Errorf("owner label of %d bytes is over the limit of %d", len(owner), maxOwner)
	}
	return nil
}
