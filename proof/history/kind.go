// SPDX-License-Identifier: Apache-2.0

package history

// A Kind is the kind of an event.
type Kind string

// The kinds of events, each with the fields that it requires besides At. The comment of each lists all; those in brackets may be
// missing.
var (
	// Run opens a history: Timeout, Tick [Grace, Flight, Blur, Delay, Path, Text]. Grace is how long after a pause a contender may still
	// record what it observed before the pause. Flight is the greatest age of an answer that a contender receives, where it
	// is known: an answer can be delayed on the network, or come from a server that lags. Blur bounds how much later than
	// the instant of its line the ensemble may have committed something, because its servers' clocks are coarser than the
	// contenders' clock. Delay is the lock-delay of all contenders, which also fence, 0 if they have none. Path is
	// the only path on which they have it, missing if it is everyone's. Text is what repeats the run.
	Run = kind("run", timeout, tick)
	// Note is a comment for readers: Text. In a history that must be rejected, Breaks lists the rules that it breaks.
	Note = kind("note", text)

	// Asked is recorded before a contender requests a grant: Contender, Attempt, Path [Together]. Text is the operation: "lock",
	// "try", "campaign". A request for several locks has an attempt for each of them; Together is the first one of these.
	Asked = kind("asked", contender, attempt, path)
	// Failed is recorded when the request returned an error: Contender, Attempt, Path, Error.
	Failed = kind("failed", contender, attempt, path, failure)
	// Granted is recorded as soon as the contender knows of the grant: Contender, Attempt, Path, Token [Node, Session,
	// Deadline, Shared, Number]. Shared is set for a reader. Session is missing where the contender cannot be sure of it. Deadline is
	// the instant at which the claim ends unless another proof of liveness extends it, as the client stated it at the grant;
	// the Deadline of a lease is the end of its validity. Number is set for a slot: its Token orders the grants of that number of the
	// path, and is the zxid at which the node <path>-limit/<number> was created.
	Granted = kind("granted", contender, attempt, path, token)
	// Downgrading is recorded before a writer downgrades its grant, which is shared from some instant after that, or not at
	// all: Contender, Attempt, Path.
	Downgrading = kind("downgrading", contender, attempt, path)
	// Notified is recorded when the grant's Done channel is closed, which notifies the holder: Contender, Attempt, Path. Cause
	// is the reason.
	Notified = kind("told", contender, attempt, path)
	// Releasing is recorded before the contender releases the grant: Contender, Attempt, Path.
	Releasing = kind("releasing", contender, attempt, path)
	// Released is recorded when that call has returned: Contender, Attempt, Path [Error].
	Released = kind("released", contender, attempt, path)

	// Writing is recorded before a contender writes to a register of a path: Contender, Attempt, Path, Token, Fenced
	// [Register, Shared]. Register distinguishes several registers of one path. Shared is set for an access of a reader, which
	// a register that checks tokens accepts unless it has accepted a newer write.
	Writing = kind("writing", contender, attempt, path, token)
	// Wrote is recorded when the register has answered: the fields of Writing, and Accepted. Without a preceding Writing,
	// the register decided at that instant. Where the ensemble itself is the register, Wrote has the fields of Sent, and
	// Zxid.
	Wrote = kind("wrote", contender, attempt, path, token)

	// Sent is recorded before a contender writes to the ensemble itself, in one transaction with the checks that permit it:
	// Contender, Attempt, Path, Token, Write [Parts, Epoch]. With the text "epoch" it claims an epoch, with
	// "proclaim" and "drain" it publishes a value of a leader, and that it prepares to resign.
	Sent = kind("sent", contender, attempt, path, token, write)
	// Answered is recorded when the contender has the result of that transaction: Contender, Attempt, Path, Write, Cause
	// [Epoch, Error]. A transaction with the cause Unknown, or without an Answered, was carried out as a whole or not at all.
	Answered = kind("answered", contender, attempt, path, write, cause)
	// Claimed is the claim of an epoch, as the ensemble committed it: Path, Node, Zxid, Epoch [Token, Session]. Token is
	// missing where an operator wrote the node.
	Claimed = kind("claimed", path, node, zxid, epoch)

	// Registered is recorded when a contender's client states that its member of a group is registered: Contender, Path,
	// Node, Session. Path is the group's.
	Registered = kind("registered", contender, path, node, session)
	// Listed is recorded when a contender has got the members of a group: Contender, Path [Zxid, Text]. Zxid is the revision,
	// missing if the group's node is. Text contains the ids, separated by spaces.
	Listed = kind("listed", contender, path)

	// Ran is recorded when a contender begins to run the job of a schedule for an activation: Contender, Path, Token, Text. Text is the
	// activation, in UTC and in the format of RFC 3339.
	Ran = kind("ran", contender, path, token, text)
	// Stored is the write of an activation, as the ensemble committed it: Path, Node, Zxid, Token, Text [Session].
	Stored = kind("stored", path, node, zxid, text)

	// Working is recorded when a contender begins the work of a partition that it owns: Contender, Path, Token.
	Working = kind("working", contender, path, token)
	// Worked is recorded when that work returns: Contender, Path, Token [Cause]. Cause is the reason for the end of the claim, missing
	// while it is held.
	Worked = kind("worked", contender, path, token)
	// Assigned is the record of a member's partitions, as the ensemble committed it: Path, Node, Zxid, Token [Session, Text]. Path is
	// the election's of the leaders, Token the term's in which it was written, and Text contains the partitions, separated by spaces.
	// Session is missing where an operator wrote it.
	Assigned = kind("assigned", path, node, zxid)

	// Fenced is recorded before a contender states that a former holder, which did not release, can do no harm any more:
	// Contender, Path, Token. Token is the former holder's.
	Fenced = kind("fenced", contender, path, token)
	// Proclaimed is what a leader publishes, as the ensemble committed it: Path, Node, Zxid, Token [Session, Write, Text]. Write
	// belongs to the Sent with the text "proclaim" whose value it is, missing if there is no value. The text is "draining" or
	// missing.
	Proclaimed = kind("proclaimed", path, node, zxid, token)
	// HandedOver is the hand-over of a leader's term, as the ensemble committed it: Path, Node, Zxid, Token, Text [Session]. Token
	// is the term's, and Text the name of the candidate's node that is to lead next.
	HandedOver = kind("handed-over", path, node, zxid, token)
	// Observed is recorded when an observer of an election is shown a leader: Contender, Path, Token [Write, Text]. Write and
	// Text are as in Proclaimed.
	Observed = kind("observed", contender, path, token)
	// Waiting is recorded before a contender waits for a barrier: Contender, Path. Path is the node which exists while
	// the barrier is set.
	Waiting = kind("waiting", contender, path)
	// Passed is recorded when that wait has succeeded: Contender, Path.
	Passed = kind("passed", contender, path)
	// Entering is recorded before a contender enters a double barrier: Contender, Path.
	Entering = kind("entering", contender, path)
	// Entered is recorded when it has: Contender, Path, Node, Limit. Node is the member's, below the node of its round,
	// which is below Path. Limit is the size of the barrier.
	Entered = kind("entered", contender, path, node, limit)
	// Leaving is recorded before the contender leaves: Contender, Path, Node.
	Leaving = kind("leaving", contender, path, node)
	// Left is recorded when it has left without an error: Contender, Path, Node.
	Left = kind("left", contender, path, node)

	// Opened is recorded before a contender first requests something in a session, as far as it knows: Contender, Session. A client that
	// opens another session while it waits records that with its next request.
	Opened = kind("opened", contender, session)
	// Closing is recorded before a contender closes a client: Contender, Session. If no server can be reached, the session lasts until
	// its timeout.
	Closing = kind("closing", contender, session)
	// Expiring is recorded before an operator ends a session: Session. Without a quorum, the session lasts until its timeout.
	Expiring = kind("expiring", session)

	// Stopped is recorded when a contender has released everything, and requests nothing any more: Contender. Its clients stay
	// connected until after End.
	Stopped = kind("stopped", contender)

	// Paused is recorded when a contender stops being scheduled: Contender.
	Paused = kind("paused", contender)
	// Woke is recorded when it is scheduled again: Contender.
	Woke = kind("woke", contender)
	// Crashed is recorded when it ends for good: Contender. It records nothing more about its requests and grants.
	Crashed = kind("crashed", contender)

	// Partitioned is recorded when a contender's network is partitioned from the servers, so that its requests or their
	// answers are lost or refused: Contender [Text]. The text "to-client" says that the servers go on hearing from it.
	Partitioned = kind("partitioned", contender)
	// Slowed is recorded when the packets between a contender and the servers begin to take so long that it may be granted nothing:
	// Contender.
	Slowed = kind("slowed", contender)
	// Healed is recorded when the partition or the delay ends: Contender.
	Healed = kind("healed", contender)

	// Created is the creation of a node, as the ensemble committed it: Node, Zxid [Session, Lease, Held]. Session is 0 for a
	// node that does not end with a session, unless the node is a lease; Lease is then the TTL that it was created with.
	Created = kind("created", node, zxid)
	// Downgraded is the write by which a contender's node became a reader's: Node, Zxid [Session].
	Downgraded = kind("downgraded", node, zxid)
	// Deleted is its deletion: Node, Zxid, Cause [Session]. Session sent the request, or is the one that ended.
	Deleted = kind("deleted", node, zxid, cause)
	// Renewed is a later write of a contender's record, as the ensemble committed it: Node, Zxid [Session, Lease, Held,
	// Cause]. Lease is the TTL from then on. The cause Revoked marks the record of a contender that was revoked.
	Renewed = kind("renewed", node, zxid)
	// Limited is the limit of the permits of a path, as the ensemble committed it: Path, Node, Zxid, Limit.
	Limited = kind("limited", path, zxid, limit)
	// Ended is the end of a session: Session, Zxid, Cause.
	Ended = kind("ended", session, cause)

	// NoQuorum is recorded when the ensemble ceases to commit writes, as an observer finds it that writes through all servers, or when the
	// observer is not scheduled.
	NoQuorum = kind("no-quorum")
	// Quorum is recorded when it commits again, and at the beginning of a history that records both.
	Quorum = kind("quorum")

	// Fault is a fault that was injected into the network or the servers: Text.
	Fault = kind("fault", text)
	// End closes a history, when no contender has held or requested anything, and nothing has been in a contender's way, for
	// a while. Nodes that still exist then are left behind. Only the ends of the contenders' sessions follow.
	End = kind("end")
)

// kinds contains the fields that each kind requires.
var kinds = map[Kind][]need{}

// kind registers a kind.
func kind(name Kind, needs ...need) Kind {
	kinds[name] = needs
	return name
}

// A need is a field that a kind requires.
type need struct {
	name string
	met  func(e *Event) bool
}

var (
	contender = need{"contender", func(e *Event) bool { return e.Contender != "" }}
	attempt   = need{"attempt", func(e *Event) bool { return e.Attempt > 0 }}
	path      = need{"path", func(e *Event) bool { return e.Path != "" }}
	node      = need{"node", func(e *Event) bool { return e.Node != "" }}
	session   = need{"session", func(e *Event) bool { return e.Session != 0 }}
	zxid      = need{"zxid", func(e *Event) bool { return e.Zxid > 0 }}
	token     = need{"token", func(e *Event) bool { return e.Token > 0 }}
	limit     = need{"limit", func(e *Event) bool { return e.Limit > 0 }}
	write     = need{"write", func(e *Event) bool { return e.Write > 0 }}
	epoch     = need{"epoch", func(e *Event) bool { return e.Epoch > 0 }}
	cause     = need{"cause", func(e *Event) bool { return e.Cause != "" }}
	failure   = need{"error", func(e *Event) bool { return e.Error != "" }}
	timeout   = need{"timeout", func(e *Event) bool { return e.Timeout > 0 }}
	tick      = need{"tick", func(e *Event) bool { return e.Tick > 0 }}
	text      = need{"text", func(e *Event) bool { return e.Text != "" }}
)
