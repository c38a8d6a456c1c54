// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// An Entry is what a join creates: the node of a session's contender, or a lease's.
type Entry struct {
	mode protocol.Mode
	// Weight is the number of permits that the contender claims, 0 if it claims the queue as a whole.
	Weight   int32
	Priority int16
	Lease    bool
	Hint     string // of a lease: begins the nonce in its name
	Data     func(p *Place) []byte
	ACL      []zk.ACL
}

// SessionEntry returns the entry of a contender that the session holds.
func (q *Queue) SessionEntry(s *client.Session, mode protocol.Mode) Entry {
	return Entry{
		mode: mode,
		Data: func(p *Place) []byte { return q.encoder.Encode(p.Nonce, s.Timeout(), time.Now()) },
		ACL:  q.Client.ACL(),
	}
}

// JoinSize returns no less than the size of the operations with which a session joins without a witness, in bytes.
func (q *Queue) JoinSize() int {
	const rest = 256 // more than the name, the nonce, the numbers and the parent's data take
	return rest + session.SizeOf(
		&zk.CreateRequest{Path: q.path, Data: q.encoder.Encode("", 0, time.Time{}), Acl: q.Client.ACL()},
		&zk.SetDataRequest{Path: q.path},
	)
}

// isUncertain reports whether the attempt would check a node of another client, which may leave at any time.
func (a *Attempt) isUncertain(s *client.Session) bool {
	own, other := a.chooseWitness(s)
	return own == nil && other != ""
}

// chooseWitness returns the witness that the attempt checks: a node of this session, or else the name of another client's. A lease
// has a nonce in its name, and needs none.
func (a *Attempt) chooseWitness(s *client.Session) (own *nodes.Node, other string) {
	q, v := a.Queue, a.View
	if a.Entry.Lease || v.overflowed || !a.witnessed {
		return nil, ""
	}
	if own = s.Nodes.Witness(q.path, v.tag); own == nil {
		other = q.witnesses.of(v.tag)
	}
	return own, other
}

// place chooses the name of the node, and the witness that the attempt checks.
func (a *Attempt) place(s *client.Session) {
	q, v, e := a.Queue, a.View, a.Entry
	a.witness, a.other = a.chooseWitness(s)
	_, a.detached = s.Served()
	p := newPlace(q.path, v.tag, q.Client.Nonce())
	p.mode, p.inName, p.Above = e.mode, !a.isWitnessed(), q.above(a.detached, v.tag)
	p.Prefix = protocol.NamePrefix(p.Tag, protocol.WithPriority(protocol.WithWeight(p.nameNonce(), e.Weight), e.Priority), p.mode)
	if e.Lease {
		p.Kind = nodes.Lease
		p.Prefix = protocol.NamePrefix(p.Tag, e.Hint+shortNonce(), p.mode)
	}
	a.Place = p
}

// maxOperations is how many operations an attempt adds to its transaction at most.
const maxOperations = 3

// operations names the node, registers it, and appends what the transaction does for it: it checks
// the witness, if there is one, creates the node, and writes the parent if that is possible.
func (a *Attempt) operations(s *client.Session, ops []any) []any {
	a.place(s)
	if w := a.witness; w != nil {
		ops = append(ops, &zk.CheckVersionRequest{Path: w.Path, Version: w.Version()})
	} else if a.other != "" {
		ops = append(ops, &zk.CheckVersionRequest{Path: a.Queue.path + "/" + a.other, Version: -1})
	}
	flags := int32(zk.FlagEphemeral | zk.FlagSequence)
	if a.Entry.Lease {
		flags = zk.FlagSequence
	}
	ops = append(ops, &zk.CreateRequest{
		Path: a.Queue.path + "/" + a.Place.Prefix, Data: a.Entry.Data(a.Place), Acl: a.Entry.ACL, Flags: flags,
	})
	if a.View.Writable {
		ops = append(ops, &zk.SetDataRequest{Path: a.Queue.path, Data: protocol.ParentData(a.View.hint), Version: a.Version})
	}
	s.Nodes.Register(a.Place.Node)
	return ops
}

// shortNonce returns 8 random base-32 digits.
func shortNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
