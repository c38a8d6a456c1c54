// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strconv"
	"time"
)

// A Kind is the kind of an event.
type Kind string

// The kinds of events. The comment of each lists its fields besides At and Kind; those in brackets may be missing.
const (
	// Run opens a history: Timeout, Tick [Grace, Flight, Blur, Delay, Path, Text]. Grace is how long after a pause a contender may still
	// record what it observed before the pause. Flight is the greatest age of an answer that a contender receives, where it
	// is known: an answer can be delayed on the network, or come from a server that lags. Blur bounds how much later than
	// the instant of its line the ensemble may have committed something, because its servers' clocks are coarser than the
	// contenders' clock. Delay is the lock-delay of all contenders, which also fence, 0 if they have none. Path is
	// the only path on which they have it, missing if it is that of all. Text is what repeats the run.
	Run Kind = "run"
	// Note is a comment for readers: Text. In a history that must be rejected, Breaks lists the rules that it breaks.
	Note Kind = "note"

	// Asked is recorded before a contender requests a grant: Contender, Attempt, Path [Together]. Text is the operation: "lock",
	// "try", "campaign". A request for several locks has an attempt for each of them; Together is the first one of these.
	Asked Kind = "asked"
	// Failed is recorded when the request returned an error: Contender, Attempt, Path, Error.
	Failed Kind = "failed"
	// Granted is recorded as soon as the contender knows of the grant: Contender, Attempt, Path, Token [Node, Session,
	// Deadline, Shared]. Shared is set for a reader. Session is missing where the contender cannot be sure of it. Deadline is
	// the instant at which the claim ends unless another proof of liveness extends it, as the client stated it at the grant;
	// that of a lease is the end of its validity.
	Granted Kind = "granted"
	// Downgrading is recorded before a writer downgrades its grant, which is shared from some instant after that, or not at
	// all: Contender, Attempt, Path.
	Downgrading Kind = "downgrading"
	// Notified is recorded when the grant's Done channel is closed, which notifies the holder: Contender, Attempt, Path. Cause
	// is the reason.
	Notified Kind = "told"
	// Releasing is recorded before the contender releases the grant: Contender, Attempt, Path.
	Releasing Kind = "releasing"
	// Released is recorded when that call has returned: Contender, Attempt, Path [Error].
	Released Kind = "released"

	// Writing is recorded before a contender writes to a register of a path: Contender, Attempt, Path, Token, Fenced
	// [Register, Shared]. Register distinguishes several registers of one path. Shared is set for an access of a reader, which
	// a register that checks tokens accepts unless it has accepted a newer write.
	Writing Kind = "writing"
	// Wrote is recorded when the register has answered: the fields of Writing, and Accepted. Without a preceding Writing,
	// the register decided at that instant. Where the ensemble itself is the register, Wrote has the fields of Sent, and
	// Zxid.
	Wrote Kind = "wrote"

	// Sent is recorded before a contender writes to the ensemble itself, in one transaction with the checks that permit it:
	// Contender, Attempt, Path, Token, Write [Parts, Epoch]. With the text "epoch" it claims an epoch, with
	// "proclaim" and "drain" it publishes a value of a leader, and that it prepares to resign.
	Sent Kind = "sent"
	// Answered is recorded when the contender has the result of that transaction: Contender, Attempt, Path, Write, Cause
	// [Epoch, Error]. A transaction with the cause Unknown, or without an Answered, was carried out as a whole or not at all.
	Answered Kind = "answered"
	// Claimed is the claim of an epoch, as the ensemble committed it: Path, Node, Zxid, Epoch [Token, Session]. Token is
	// missing where an operator wrote the node.
	Claimed Kind = "claimed"

	// Registered is recorded when a contender's client states that its member of a group is registered: Contender, Path,
	// Node, Session. Path is that of the group.
	Registered Kind = "registered"
	// Listed is recorded when a contender has got the members of a group: Contender, Path [Zxid, Text]. Zxid is the revision,
	// missing if the group's node is. Text contains the ids, separated by spaces.
	Listed Kind = "listed"

	// Ran is recorded when a contender begins to run the job of a schedule for a tick: Contender, Path, Token, Text. Text is the
	// tick, in UTC and in the format of RFC 3339.
	Ran Kind = "ran"
	// Stored is the write of a tick, as the ensemble committed it: Path, Node, Zxid, Token, Text [Session].
	Stored Kind = "stored"

	// Fenced is recorded before a contender states that a former holder, which did not release, can do no harm any more:
	// Contender, Path, Token. Token is that of the former holder.
	Fenced Kind = "fenced"
	// Proclaimed is what a leader publishes, as the ensemble committed it: Path, Node, Zxid, Token [Session, Write, Text]. Write
	// is that of the Sent with the text "proclaim" whose value it is, missing if there is no value. The text is "draining" or
	// missing.
	Proclaimed Kind = "proclaimed"
	// HandedOver is the hand-over of a leader's term, as the ensemble committed it: Path, Node, Zxid, Token, Text [Session]. Token
	// is that of the term, and Text the name of the candidate's node that is to lead next.
	HandedOver Kind = "handed-over"
	// Observed is recorded when an observer of an election is shown a leader: Contender, Path, Token [Write, Text]. Write and
	// Text are those of Proclaimed.
	Observed Kind = "observed"
	// Waiting is recorded before a contender waits for a barrier: Contender, Path. Path is that of the node which exists while
	// the barrier is set.
	Waiting Kind = "waiting"
	// Passed is recorded when that wait has succeeded: Contender, Path.
	Passed Kind = "passed"
	// Entering is recorded before a contender enters a double barrier: Contender, Path.
	Entering Kind = "entering"
	// Entered is recorded when it has: Contender, Path, Node, Limit. Node is that of the member, below the node of its round,
	// which is below Path. Limit is the size of the barrier.
	Entered Kind = "entered"
	// Leaving is recorded before the contender leaves: Contender, Path, Node.
	Leaving Kind = "leaving"
	// Left is recorded when it has left without an error: Contender, Path, Node.
	Left Kind = "left"

	// Paused is recorded when a contender stops being scheduled: Contender.
	Paused Kind = "paused"
	// Woke is recorded when it is scheduled again: Contender.
	Woke Kind = "woke"
	// Crashed is recorded when it ends for good: Contender. It records nothing more about its requests and grants.
	Crashed Kind = "crashed"

	// Partitioned is recorded when a contender's network is partitioned from the servers, so that its requests or their
	// answers are lost or refused: Contender [Text].
	Partitioned Kind = "partitioned"
	// Healed is recorded when the partition ends: Contender.
	Healed Kind = "healed"

	// Created is the creation of a node, as the ensemble committed it: Node, Zxid [Session, Lease, Held]. Session is 0 for a
	// node that does not end with a session, unless the node is a lease; Lease is then the TTL that it was created with.
	Created Kind = "created"
	// Downgraded is the write by which a contender's node became that of a reader: Node, Zxid [Session].
	Downgraded Kind = "downgraded"
	// Deleted is its deletion: Node, Zxid, Cause [Session]. Session is that of the request, or the one that ended.
	Deleted Kind = "deleted"
	// Renewed is a later write of a contender's record, as the ensemble committed it: Node, Zxid [Session, Lease, Held,
	// Cause]. Lease is the TTL from then on. The cause Revoked marks the record of a contender that was revoked.
	Renewed Kind = "renewed"
	// Limited is the limit of the permits of a path, as the ensemble committed it: Path, Node, Zxid, Limit.
	Limited Kind = "limited"
	// Ended is the end of a session: Session, Zxid, Cause.
	Ended Kind = "ended"

	// Fault is a fault that was injected into the network or the servers: Text.
	Fault Kind = "fault"
	// End closes a history, when no contender has held or requested anything, and nothing has been in a contender's way, for
	// a while. Nodes that still exist then are left behind.
	End Kind = "end"
)

// A Cause is the reason for which a session, a node or a grant ended.
type Cause string

// Causes. Those of a Notified event name errors of package recipes. Values do not change: kept histories contain them.
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
	// Refused is that of a transaction that was not carried out, and will not be.
	Refused Cause = "refused"
	// Unknown is that of a transaction that may or may not have been carried out.
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
func (e Event) check() error {
	var missing []string
	need := func(name string, there bool) {
		if !there {
			missing = append(missing, name)
		}
	}
	if attempts[e.Kind] {
		need("contender", e.Contender != "")
		need("attempt", e.Attempt > 0)
		need("path", e.Path != "")
	}
	switch e.Kind {
	case Run:
		need("timeout", e.Timeout > 0)
		need("tick", e.Tick > 0)
	case Failed:
		need("error", e.Error != "")
	case Granted, Writing, Wrote:
		need("token", e.Token > 0)
	case Sent:
		need("token", e.Token > 0)
		need("write", e.Write > 0)
	case Answered:
		need("write", e.Write > 0)
		need("cause", e.Cause != "")
	case Claimed:
		need("path", e.Path != "")
		need("node", e.Node != "")
		need("zxid", e.Zxid > 0)
		need("epoch", e.Epoch > 0)
	case Limited:
		need("path", e.Path != "")
		need("zxid", e.Zxid > 0)
		need("limit", e.Limit > 0)
	case Registered:
		need("contender", e.Contender != "")
		need("path", e.Path != "")
		need("node", e.Node != "")
		need("session", e.Session != 0)
	case Listed:
		need("contender", e.Contender != "")
		need("path", e.Path != "")
	case Waiting, Passed, Entering:
		need("contender", e.Contender != "")
		need("path", e.Path != "")
	case Entered, Leaving, Left:
		need("contender", e.Contender != "")
		need("path", e.Path != "")
		need("node", e.Node != "")
		need("limit", e.Limit > 0 || e.Kind != Entered)
	case Ran:
		need("contender", e.Contender != "")
		need("path", e.Path != "")
		need("token", e.Token > 0)
		need("text", e.Text != "")
	case Stored:
		need("path", e.Path != "")
		need("node", e.Node != "")
		need("zxid", e.Zxid > 0)
		need("text", e.Text != "")
	case Proclaimed, HandedOver:
		need("path", e.Path != "")
		need("node", e.Node != "")
		need("zxid", e.Zxid > 0)
		need("token", e.Token > 0)
	case Observed, Fenced:
		need("contender", e.Contender != "")
		need("path", e.Path != "")
		need("token", e.Token > 0)
	case Paused, Woke, Crashed, Partitioned, Healed:
		need("contender", e.Contender != "")
	case Created, Renewed, Downgraded:
		need("node", e.Node != "")
		need("zxid", e.Zxid > 0)
	case Deleted:
		need("node", e.Node != "")
		need("zxid", e.Zxid > 0)
		need("cause", e.Cause != "")
	case Ended:
		need("session", e.Session != 0)
		need("cause", e.Cause != "")
	case Note, Fault:
		need("text", e.Text != "")
	case Asked, Downgrading, Notified, Releasing, Released, End:
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s without %v", e.Kind, missing)
	}
	return nil
}

// attempts contains the kinds that concern one attempt of one contender.
var attempts = map[Kind]bool{
	Asked: true, Failed: true, Granted: true, Downgrading: true, Notified: true, Releasing: true, Released: true, Writing: true, Wrote: true,
	Sent: true, Answered: true,
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
