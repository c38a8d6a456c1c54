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
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// An Entry is what a join creates: the node of a session's contender, or that of a lease.
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

// Place returns the place that an attempt to join creates, and the witness that it checks, if
// there is one and witnessed allows it. A lease has a nonce in its name, and needs no witness.
func (q *Queue) Place(s *client.Session, v parentView, e Entry, witnessed bool) (p *Place, witness *nodes.Node) {
	if !e.Lease && !v.overflowed && witnessed {
		witness = s.Nodes.Witness(q.path, v.tag)
	}
	p = newPlace(q.path, v.tag, q.Client.Nonce())
	p.mode, p.inName, p.Above = e.mode, witness == nil, v.highest
	p.Prefix = protocol.NamePrefix(p.Tag, protocol.WithPriority(protocol.WithWeight(p.nameNonce(), e.Weight), e.Priority), p.mode)
	if e.Lease {
		p.Kind = nodes.Lease
		p.Prefix = protocol.NamePrefix(p.Tag, e.Hint+shortNonce(), p.mode)
	}
	return p, witness
}

// shortNonce returns 8 random base-32 digits.
func shortNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
