// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"bytes"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// Observe makes the client delete the contender's node if its version does not change for
// 33/32 of its TTL, as each client does that a lease blocks. It does nothing for a contender
// that its own session ends. c is as a read has returned it.
func (q *Queue) Observe(c Contender) { q.observe(c, time.Now()) }

// Forget ends the observation of a contender's node, which was deleted.
func (q *Queue) Forget(name string) { observers.Of(q.client).forget(q.path+"/"+name, 1<<31-1) }

// observe is Observe for a contender that was seen at that instant.
func (q *Queue) observe(c Contender, at time.Time) {
	if ttl := c.lifetime(); ttl > 0 {
		observers.Of(q.client).see(q.path+"/"+c.Name, c.Version, ttl, at)
	}
}

// lifetime returns how long this version of the contender's record lasts, 0 if it does not
// end: the TTL of a lease, or, if a claim was revoked, the timeout of its session.
func (c *Contender) lifetime() time.Duration {
	switch {
	case c.Kind == KindLease, c.Kind == KindSession && c.Revoked != nil:
		return c.TTL
	}
	return 0
}

// sharedWatched reports whether the node of that member, as the watch was set on it, does not keep
// a reader waiting: it was downgraded, and remains so.
func sharedWatched(w *session.Watch, m protocol.Member) bool {
	data, _, _ := w.Content()
	if m.Mode != Write || !bytes.Contains(data, []byte(`"shared"`)) {
		return false
	}
	r := protocol.DecodeRecord(data)
	return r.Downgraded(m.Mode)
}

// observeWatched observes the node of that name as the watch was set on it.
func (q *Queue) observeWatched(w *session.Watch, name string) {
	data, stat, at := w.Content()
	// Most contenders are sessions: their records need not be decoded.
	if stat != nil && (bytes.Contains(data, []byte(`"ttl"`)) || bytes.Contains(data, []byte(`"revoked"`))) {
		q.observe(contenderOf(name, data, stat), at)
	}
}
