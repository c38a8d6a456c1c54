// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// An entry is what a join creates: the node of a session's contender, or that of a lease.
type entry struct {
	mode Mode
	// weight is the number of permits that the contender claims, 0 if it claims the queue as a whole.
	weight   int32
	priority int16
	lease    bool
	hint     string // of a lease: begins the nonce in its name
	data     func(p *place) []byte
	acl      []zk.ACL
}

// sessionEntry returns the entry of a contender that the session holds.
func (q *Queue) sessionEntry(s *client.Session, mode Mode) entry {
	return entry{
		mode: mode,
		data: func(p *place) []byte { return q.encoder.Encode(p.Nonce, s.Timeout(), time.Now()) },
		acl:  q.client.ACL(),
	}
}

// place returns the place that an attempt to join creates, and the witness that it checks, if
// there is one and witnessed allows it. A lease has a nonce in its name, and needs no witness.
func (q *Queue) place(s *client.Session, v view, e entry, witnessed bool) (p *place, witness *session.Node) {
	if !e.lease && !v.overflowed && witnessed {
		witness = s.Witness(q.path, v.tag)
	}
	p = newPlace(q.path, v.tag, q.client.Nonce())
	p.mode, p.inName, p.Above, p.Lease = e.mode, witness == nil, v.highest, e.lease
	p.Prefix = protocol.NamePrefix(p.Tag, protocol.WithPriority(protocol.WithWeight(p.nameNonce(), e.weight), e.priority), p.mode)
	if e.lease {
		p.Prefix = protocol.NamePrefix(p.Tag, e.hint+shortNonce(), p.mode)
	}
	return p, witness
}

// shortNonce returns 8 random base-32 digits.
func shortNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
