// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"crypto/rand"
	"encoding/base32"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// An entry is what a join creates: the node of a session's contender, or that of a lease.
type entry struct {
	lease bool
	hint  string // of a lease: begins the nonce in its name
	data  func(p *place) []byte
	acl   []zk.ACL
}

// sessionEntry returns the entry of a contender that the session holds.
func (q *Queue) sessionEntry(s *queueSession) entry {
	return entry{
		data: func(p *place) []byte { return q.encoder.encode(p.Nonce, s.Timeout()) },
		acl:  q.client.settings.acl,
	}
}

// place returns the place that an attempt to join creates, and the witness that it checks, if
// there is one and witnessed allows it. A lease has a nonce in its name, and needs no witness.
func (q *Queue) place(s *queueSession, v view, e entry, witnessed bool) (p *place, witness *session.Node) {
	if !e.lease && !v.overflowed && witnessed {
		witness = s.Witness(q.path, v.tag)
	}
	p = newPlace(q.path, v.tag, q.client.nonces.next())
	p.inName, p.Above, p.Lease = witness == nil, v.highest, e.lease
	p.Prefix = namePrefix(p.Tag, p.nameNonce())
	if e.lease {
		p.Prefix = namePrefix(p.Tag, e.hint+shortNonce())
	}
	return p, witness
}

// shortNonce returns 8 random base-32 digits.
func shortNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
