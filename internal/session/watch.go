// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// Watch waits until the watch is set, by this call or an earlier one. Its error wraps the error of
// the server or of ctx.
func (s *sender) Watch(ctx context.Context, path string, kind WatchKind) (*Watch, error) {
	key := watchKey{path, kind}
	w, isNew := s.watches.at(key)
	defer s.watches.leave(w)
	if isNew {
		s.setWatch(key, w)
	}
	select {
	case <-w.set:
		return w, w.err
	case <-ctx.Done():
		return nil, s.Fail("watch", path, ctx.Err())
	}
}

// setWatch sets the watch for all of its callers. It does not depend on the context of the
// first one, which may end before the answer. It is not repeated once no caller waits.
func (s *sender) setWatch(key watchKey, w *Watch) {
	err := s.spawn(func() {
		c, err := repeat(s.ctx, s, "watch", key.path, func() (content, error) {
			return CallAndWait(s.ctx, s, Ordinary, whileAsked(func() bool { return !s.watches.abandon(key, w) }, func(conn *zk.Conn) (content, error) {
				_, w.detached = s.Served() // first: the request may be sent on a later connection
				return requestWatch(conn, key)
			}))
		})
		w.data, w.children, w.stat, w.at = c.data, c.children, c.stat, time.Now()
		s.wasSet(key, w, err)
	})
	if err != nil {
		s.wasSet(key, w, s.Fail("watch", key.path, err))
	}
}

// wasSet notifies the callers that wait for the watch to be set, with the outcome.
func (s *sender) wasSet(key watchKey, w *Watch, err error) {
	w.err = err
	close(w.set)
	if err != nil {
		s.watches.drop(key, w, zk.EventNotWatching)
	}
}

func requestWatch(conn *zk.Conn, key watchKey) (c content, err error) {
	switch key.kind {
	case WatchNode:
		c.data, c.stat, _, err = conn.GetW(key.path)
	case WatchChildren:
		c.children, c.stat, _, err = conn.ChildrenW(key.path)
	case WatchCreation:
		_, _, _, err = conn.ExistsW(key.path)
	}
	return c, err
}

// unset fires all watches after a server refused to set some of them again. It has none of those, nor of the ones that the
// client would have set with its next packets, and the client does not notify anyone. The connection stays: a server that
// is too busy for watches would only get a handshake and the same packets again.
func (s *sender) unset() {
	s.watches.dropAll()
	s.Nodes.UnwatchAll() // afterwards: a watch that is set in between is found
	s.alarm.Ring()
}
