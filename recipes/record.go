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
// node ahead of it, so a label is a name and not a place to keep data.
const maxOwner = 4096

// maxTransaction bounds what one transaction may carry, in bytes: a server drops
// the connection over a packet larger than its jute.maxbuffer, 1 048 575 bytes by
// default, and says nothing.
const maxTransaction = 1<<20 - 1

// parentMark is the data of a parent that is ours to write.
const parentMark = "lockkeeper/1"

// A record is the data of a contender's node. It is written once, by the create,
// and never again: a write would wake whoever watches the node.
type record struct {
	Format int       `json:"format"` // 1
	Owner  string    `json:"owner"`
	Host   string    `json:"host"`
	PID    int       `json:"pid"`
	Nonce  string    `json:"nonce"` // names the attempt, to find a node whose creation was not answered
	Time   time.Time `json:"time"`  // by the clock of the contender's host
}

// A scribe writes the records of one line. What they have in common is encoded
// once: a lock that nobody contends for is little more than its record.
type scribe struct{ head, tail []byte }

func newScribe(owner, host string) (*scribe, error) {
	r := record{Format: 1, Owner: owner, Host: host, PID: os.Getpid()}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of %q: %w", owner, err)
	}
	// The two that differ come last, in the order of the fields.
	i := bytes.LastIndex(data, []byte(`,"nonce":`))
	return &scribe{head: append(data[:i:i], `,"nonce":"`...), tail: []byte(`","time":"`)}, nil
}

// record is the record of one attempt, in JSON. The nonce is plain ASCII.
func (s *scribe) record(nonce string) []byte {
	data := make([]byte, 0, len(s.head)+len(nonce)+len(s.tail)+len(time.RFC3339Nano)+2)
	data = append(data, s.head...)
	data = append(data, nonce...)
	data = append(data, s.tail...)
	data = time.Now().UTC().AppendFormat(data, time.RFC3339Nano)
	return append(data, `"}`...)
}

// nonces names attempts: no two are alike, in whatever process.
type nonces struct {
	process string // drawn at random
	last    atomic.Uint64
}

func newNonces() *nonces { return &nonces{process: rand.Text()} }

func (n *nonces) next() string { return n.process + strconv.FormatUint(n.last.Add(1), 36) }

// decodeRecord reads the data of a contender's node. Nodes of other libraries
// hold what they like: that becomes the owner, as far as it is text.
func decodeRecord(data []byte) record {
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r.Format != 1 {
		return record{Owner: string(data)}
	}
	return r
}

// hostname is the host's name, for people to read.
func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// DefaultOwner is the owner label of those who give none: host and process id.
func DefaultOwner() string { return fmt.Sprintf("%s/%d", hostname(), os.Getpid()) }

// CheckOwner says what is wrong with an owner label.
func CheckOwner(owner string) error {
	if len(owner) > maxOwner {
		return fmt.Errorf("owner label of %d bytes is over the limit of %d", len(owner), maxOwner)
	}
	return nil
}
