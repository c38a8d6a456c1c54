// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strconv"
	"time"
)

// A Kind is what an event tells of.
type Kind string

// The kinds of events. After each stand the fields that it has besides At and Kind; those in brackets may be missing.
const (
	// Run opens a history: Timeout, Tick [Grace, Flight, Blur, Text]. Grace is for how long after a contender has woken from
	// a pause it may still note what it had seen before. Flight is how old an answer can be that a contender gets, where
	// that is known: it may have been long under way, or given by a server that is behind. Blur is by how much later than
	// its line says the ensemble may have decided something: its servers' clocks tell less of the time than contenders' do.
	// Text says how to repeat the run.
	Run Kind = "run"
	// Note is for people: Text. In a history that must be rejected, Breaks has the rules that it breaks.
	Note Kind = "note"

	// Asked is told before a contender asks for a grant: Contender, Attempt, Path. Text is how: "lock", "try", "campaign".
	Asked Kind = "asked"
	// Failed is told when the asking came to nothing: Contender, Attempt, Path, Error.
	Failed Kind = "failed"
	// Granted is told as soon as the contender knows: Contender, Attempt, Path, Token [Node, Session, Deadline]. Session is
	// missing where the contender cannot be sure of it. Deadline is the instant at which the claim ends without further proof
	// that its session lives, as the client stated it at the grant.
	Granted Kind = "granted"
	// Told is when the grant's Done was closed: Contender, Attempt, Path. Cause says why.
	Told Kind = "told"
	// Releasing is told before the contender gives the grant up: Contender, Attempt, Path.
	Releasing Kind = "releasing"
	// Released is told when that call has returned: Contender, Attempt, Path [Error].
	Released Kind = "released"

	// Writing is told before a contender writes to a register of a path: Contender, Attempt, Path, Token, Fenced
	// [Register]. Register tells several of one path apart.
	Writing Kind = "writing"
	// Wrote is told when the register has answered: as Writing, with Accepted. It may come without a Writing: then the
	// register decided at that instant. Where the ensemble itself is the register, it has what Sent has, and Zxid.
	Wrote Kind = "wrote"

	// Sent is told before a contender writes to the ensemble itself, in one transaction with checks that it may: Contender,
	// Attempt, Path, Token, Write [Parts, Epoch]. With the text "epoch" it claims one.
	Sent Kind = "sent"
	// Answered is told when it has heard what came of that: Contender, Attempt, Path, Write, Cause [Epoch, Error]. What was
	// answered as unknown, or not at all, was carried out as a whole or not at all.
	Answered Kind = "answered"
	// Claimed is an epoch's claim, as the ensemble ordered it: Path, Node, Zxid, Epoch [Token, Session]. Token is missing
	// where the node was written by hand.
	Claimed Kind = "claimed"

	// Paused is when a contender ceases to be scheduled: Contender.
	Paused Kind = "paused"
	// Woke is when it is again: Contender.
	Woke Kind = "woke"
	// Crashed is when it is gone for good: Contender. What it had asked for or held is never heard of again.
	Crashed Kind = "crashed"

	// Partitioned is when the network of a contender is partitioned from the servers: what it sends, or what they answer,
	// is lost or refused: Contender [Text].
	Partitioned Kind = "partitioned"
	// Healed is when the partition ends: Contender.
	Healed Kind = "healed"

	// Created is a node's creation, as the ensemble ordered it: Node, Zxid [Session]. Session is 0 for a node that does
	// not end with a session.
	Created Kind = "created"
	// Deleted is its deletion: Node, Zxid, Cause [Session]. Session is that of the request, or the one that ended.
	Deleted Kind = "deleted"
	// Ended is the end of a session: Session, Zxid, Cause.
	Ended Kind = "ended"

	// Fault is what was done to the network or the servers: Text.
	Fault Kind = "fault"
	// End closes a history, when no contender holds or asks for anything and nothing is in a contender's way since a
	// while: nodes that are left then are left behind.
	End Kind = "end"
)

// A Cause is why a session, a node or a grant came to its end.
type Cause string

// Causes. Those of a Told are the names of the errors of package recipes.
const (
	// ByRequest is a delete or a close that a client asked for.
	ByRequest Cause = "request"
	// ByTimeout is a session's end because nothing was heard of it.
	ByTimeout Cause = "timeout"
	// ByHand is whatever somebody does who is no contender: an operator who deletes a node or ends a session. What the
	// recipes promise is not promised then: see package recipes.
	ByHand Cause = "hand"

	// Done is the Answered of what was carried out.
	Done Cause = "done"
	// Refused is that of what was not, and will not be.
	Refused Cause = "refused"
	// Unknown is that of what may or may not have been.
	Unknown Cause = "unknown"

	Expired    Cause = "expired"  // recipes.ErrSessionExpired
	Deadline   Cause = "deadline" // recipes.ErrDeadline
	Removed    Cause = "deleted"  // recipes.ErrDeleted
	GivenUp    Cause = "released" // recipes.ErrReleased
	ClientShut Cause = "closed"   // recipes.ErrClosed
)

// An Event is one line of a history. Which fields it has depends on its kind.
type Event struct {
	At        Instant  `json:"at"`                  // since the beginning of the run
	Kind      Kind     `json:"kind"`                // what it tells of
	Contender string   `json:"contender,omitempty"` // a process, or what stands for one
	Attempt   int      `json:"attempt,omitempty"`   // numbers what contenders ask for, from 1, each once in a history
	Path      string   `json:"path,omitempty"`      // of the lock or election
	Node      string   `json:"node,omitempty"`      // full path
	Session   ID       `json:"session,omitempty"`   // a ZooKeeper session
	Zxid      ID       `json:"zxid,omitempty"`      // of the transaction
	Token     ID       `json:"token,omitempty"`     // a fencing token
	Register  string   `json:"register,omitempty"`  // one of several
	Fenced    bool     `json:"fenced,omitempty"`    // the register checks tokens
	Accepted  bool     `json:"accepted,omitempty"`  // the register took the write
	Write     int      `json:"write,omitempty"`     // numbers what contenders send, from 1, each once in a history
	Parts     int      `json:"parts,omitempty"`     // nodes that a transaction writes
	Epoch     int64    `json:"epoch,omitempty"`     // number of an epoch
	Cause     Cause    `json:"cause,omitempty"`     // of an end, or an answer
	Error     string   `json:"error,omitempty"`     // in words
	Deadline  Instant  `json:"deadline,omitempty"`  // of the claim, as its holder knew it at the grant
	Timeout   Instant  `json:"timeout,omitempty"`   // the sessions' T
	Tick      Instant  `json:"tick,omitempty"`      // the servers' tickTime
	Grace     Instant  `json:"grace,omitempty"`     // after a pause
	Flight    Instant  `json:"flight,omitempty"`    // of answers
	Blur      Instant  `json:"blur,omitempty"`      // of the ensemble's instants
	Text      string   `json:"text,omitempty"`      // for people, or as the kind says
	Breaks    []string `json:"breaks,omitempty"`    // rules
	Line      int      `json:"-"`                   // in the history, from 1
}

// String names the event by its line, as the checker's findings do.
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
		{"session ", e.Session.String(), e.Session != 0},
		{"zxid ", e.Zxid.String(), e.Zxid != 0},
		{"token ", e.Token.String(), e.Token != 0},
		{"register ", strconv.Quote(e.Register), e.Register != ""},
		{"write ", strconv.Itoa(e.Write), e.Write != 0},
		{"epoch ", strconv.FormatInt(e.Epoch, 10), e.Epoch != 0},
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

// check says whether each field that the kind must have is there.
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
	case Paused, Woke, Crashed, Partitioned, Healed:
		need("contender", e.Contender != "")
	case Created:
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
	case Asked, Told, Releasing, Released, End:
	default:
		return fmt.Errorf("unknown kind %q", e.Kind)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s without %v", e.Kind, missing)
	}
	return nil
}

// attempts are the kinds that are about one attempt of one contender.
var attempts = map[Kind]bool{
	Asked: true, Failed: true, Granted: true, Told: true, Releasing: true, Released: true, Writing: true, Wrote: true,
	Sent: true, Answered: true,
}

// An Instant is a time since the beginning of the run, or the length of one. In a file it is what time.ParseDuration
// reads.
type Instant time.Duration

func (i Instant) String() string { return time.Duration(i).String() }

// MarshalText returns the instant as time.Duration prints it.
func (i Instant) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (i *Instant) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("instant: %w", err)
	}
	*i = Instant(d)
	return nil
}

// An ID is a session, a zxid or a token. In a file it is hexadecimal with 0x before it, as ZooKeeper prints them: a
// node's czxid and the token of who holds it then look alike, and no reader loses digits.
type ID int64

func (id ID) String() string { return "0x" + strconv.FormatUint(uint64(id), 16) } //nolint:gosec // the same bits

// MarshalText returns the id in hexadecimal.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads hexadecimal with 0x before it.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf("id: %w", err)
	}
	*id = ID(n) //nolint:gosec // the same bits
	return nil
}
