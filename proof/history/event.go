// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strconv"
	"time"
)

// A Cause is the reason for which a session, a node or a grant ended.
type Cause string

// Causes. The cause of a Notified event names an error of package recipes. Values do not change: kept histories contain them.
const (
	// ByRequest is a delete or a close that a client requested.
	ByRequest Cause = "request"
	// ByTimeout is the expiry of a session, or of a lease that was not written for its TTL × 33/32.
	ByTimeout Cause = "timeout"
	// ByRevocation is a delete of a contender's node after an administrator had revoked it, and its holder had been notified.
	ByRevocation Cause = "revocation"
	// ByOperator is an action of an operator, or of anything else that is no contender, which deleted the node or ended the
	// session. What package recipes promises does not apply then: see its documentation.
	ByOperator Cause = "hand"

	// Done is the cause of an Answered whose transaction was carried out.
	Done Cause = "done"
	// Refused is the outcome of a transaction that was not carried out, and will not be.
	Refused Cause = "refused"
	// Unknown is the outcome of a transaction that may or may not have been carried out.
	Unknown Cause = "unknown"

	Expired    Cause = "expired"  // recipes.ErrSessionExpired
	Deadline   Cause = "deadline" // recipes.ErrDeadline
	Removed    Cause = "deleted"  // recipes.ErrDeleted
	GivenUp    Cause = "released" // recipes.ErrReleased
	ClientShut Cause = "closed"   // recipes.ErrClosed
	Revoked    Cause = "revoked"  // recipes.ErrRevoked
	Validity   Cause = "validity" // the lease is no longer valid by its holder's clock
)

// An Event is one line of a history. Its kind determines which fields are set.
type Event struct {
	At        Instant  `json:"at"`                  // since the start of the run
	Kind      Kind     `json:"kind"`                // of the event
	Contender string   `json:"contender,omitempty"` // a process, or a worker of one
	Attempt   int      `json:"attempt,omitempty"`   // numbers the requests of contenders from 1, unique in a history
	Path      string   `json:"path,omitempty"`      // of the lock or election
	Node      string   `json:"node,omitempty"`      // full path
	Session   ID       `json:"session,omitempty"`   // a ZooKeeper session
	Zxid      ID       `json:"zxid,omitempty"`      // of the transaction
	Token     ID       `json:"token,omitempty"`     // a fencing token
	Register  string   `json:"register,omitempty"`  // one of several
	Fenced    bool     `json:"fenced,omitempty"`    // the register checks tokens
	Accepted  bool     `json:"accepted,omitempty"`  // the register accepted the write
	Shared    bool     `json:"shared,omitempty"`    // of a reader, or of permits
	Together  int      `json:"together,omitempty"`  // the first attempt of a request for several locks
	Limit     int      `json:"limit,omitempty"`     // of permits
	Number    string   `json:"number,omitempty"`    // of a slot, in decimal
	Write     int      `json:"write,omitempty"`     // numbers the writes to the ensemble from 1, unique in a history
	Parts     int      `json:"parts,omitempty"`     // number of nodes that a transaction writes
	Epoch     int64    `json:"epoch,omitempty"`     // number of an epoch
	Cause     Cause    `json:"cause,omitempty"`     // of an end, or an answer
	Error     string   `json:"error,omitempty"`     // in words
	Deadline  Instant  `json:"deadline,omitempty"`  // of the claim, as the client stated it at the grant
	Lease     Instant  `json:"lease,omitempty"`     // TTL of a lease from then on
	Held      bool     `json:"held,omitempty"`      // the record of a lease is written as held, not as waiting
	Timeout   Instant  `json:"timeout,omitempty"`   // the sessions' T
	Tick      Instant  `json:"tick,omitempty"`      // the servers' tickTime
	Grace     Instant  `json:"grace,omitempty"`     // after a pause
	Flight    Instant  `json:"flight,omitempty"`    // of answers
	Blur      Instant  `json:"blur,omitempty"`      // of the ensemble's instants
	Delay     Instant  `json:"delay,omitempty"`     // after holders that did not release
	Text      string   `json:"text,omitempty"`      // for readers, or as the kind defines it
	Breaks    []string `json:"breaks,omitempty"`    // rules
	Line      int      `json:"-"`                   // in the history, from 1
}

// String returns the event on one line, with its line number, as the checker's findings show it.
func (e Event) String() string {
	s := fmt.Sprintf("line %d: %v %s", e.Line, e.At, e.Kind)
	for _, part := range []struct {
		name, value string
		set         bool
	}{
		{"", e.Contender, e.Contender != ""},
		{"attempt ", strconv.Itoa(e.Attempt), e.Attempt != 0},
		{"", e.Node, e.Node != ""},
		{"", e.Path, e.Path != "" && e.Node == ""},
		{"together with attempt ", strconv.Itoa(e.Together), e.Together != 0},
		{"session ", e.Session.String(), e.Session != 0},
		{"zxid ", e.Zxid.String(), e.Zxid != 0},
		{"token ", e.Token.String(), e.Token != 0},
		{"register ", strconv.Quote(e.Register), e.Register != ""},
		{"write ", strconv.Itoa(e.Write), e.Write != 0},
		{"", "shared", e.Shared},
		{"limit ", strconv.Itoa(e.Limit), e.Limit != 0},
		{"number ", e.Number, e.Number != ""},
		{"epoch ", strconv.FormatInt(e.Epoch, 10), e.Epoch != 0},
		{"TTL ", e.Lease.String(), e.Lease != 0},
		{"", "held", e.Held},
		{"", string(e.Cause), e.Cause != ""},
		{"error ", strconv.Quote(e.Error), e.Error != ""},
		{"", e.Text, e.Text != ""},
	} {
		if part.set {
			s += " " + part.name + part.value
		}
	}
	return s
}

// check returns an error for an unknown kind, and for a field that the kind requires and that is missing.
func (e *Event) check() error {
	needs, known := kinds[e.Kind]
	if !known {
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	var missing []string
	for _, need := range needs {
		if !need.met(e) {
			missing = append(missing, need.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s without %v", e.Kind, missing)
	}
	return nil
}

// An Instant is a time since the start of the run, or a duration. In a file it has the format of time.ParseDuration.
type Instant time.Duration

func (i Instant) String() string { return time.Duration(i).String() }

// MarshalText returns the instant as time.Duration prints it.
func (i Instant) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText parses the format of time.ParseDuration.
func (i *Instant) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("instant: %w", err)
	}
	*i = Instant(d)
	return nil
}

// An ID is a session, a zxid or a token. In a file it is hexadecimal with the prefix 0x, as ZooKeeper prints it: a node's
// czxid and its holder's token then look alike, and JSON readers that store numbers as floats lose no digits.
type ID int64

func (id ID) String() string { return "0x" + strconv.FormatUint(uint64(id), 16) } //nolint:gosec // the same bits

// MarshalText returns the id in hexadecimal.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses hexadecimal with the prefix 0x.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf("id: %w", err)
	}
	*id = ID(n) //nolint:gosec // the same bits
	return nil
}
