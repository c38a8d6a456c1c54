// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/expiry"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Observe makes the client delete the contender's node if its version does not change for
// 33/32 of its TTL, as each client does that a lease blocks. It does nothing for a contender
// that its own session ends. c is as a read has returned it.
func (q *Queue) Observe(c recipes.Contender) { q.ObserveAt(c, time.Now()) }

// Forget ends the observation of a contender's node, which was deleted.
func (q *Queue) Forget(name string) { expiry.Forget(q.Client, q.path+"/"+name, 1<<31-1) }

// ObserveAt is Observe for a contender that was seen at that instant.
func (q *Queue) ObserveAt(c recipes.Contender, at time.Time) {
	if ttl := lifetimeOf(&c); ttl > 0 {
		expiry.See(q.Client, q.path+"/"+c.Name, c.Version, ttl, at)
	}
}

// lifetimeOf returns how long this version of the contender's record lasts, 0 if it does not
// end: the TTL of a lease, or, if a claim was revoked, the timeout of its session.
func lifetimeOf(c *recipes.Contender) time.Duration {
	switch {
	case c.Kind == recipes.KindLease, c.Kind == recipes.KindSession && c.Revoked != nil:
		return c.TTL
	}
	return 0
}

// sharedWatched reports whether the node of that member, as the watch was set on it, does not keep
// a reader waiting: it was downgraded, and remains so.
func sharedWatched(w *session.Watch, m protocol.Member) bool {
	data, _, _ := w.Content()
	if m.Mode != protocol.Write || !bytes.Contains(data, []byte(`"shared"`)) {
		return false
	}
	r := protocol.DecodeRecord(data)
	return r.Downgraded(m.Mode)
}

// ObserveWatched observes the node of that name as the watch was set on it.
func (q *Queue) ObserveWatched(w *session.Watch, name string) {
	data, stat, at := w.Content()
	// Most contenders are sessions: their records need not be decoded.
	if stat != nil && (bytes.Contains(data, []byte(`"ttl"`)) || bytes.Contains(data, []byte(`"revoked"`))) {
		q.ObserveAt(ContenderOf(name, data, stat), at)
	}
}
