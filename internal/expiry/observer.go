// SPDX-License-Identifier: Apache-2.0

// Package expiry deletes the nodes of contenders whose holders have stopped renewing them.
package expiry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// maxObserved bounds the nodes that a client observes, at about 200 bytes each. Beyond it, those
// that expire last are left to their other observers: many long leases of one tenant must not
// keep the short ones of others from ending.
const maxObserved = 1 << 17

// An observer deletes the nodes of leases that are no longer renewed. It deletes a node once
// the client has seen one version of it for 33/32 of its TTL: the holder, whose clock may be
// slower by 1/64 and who counts from an earlier instant, has stopped by then.
//
// It has one goroutine and one timer, whatever the number of nodes. It is safe for concurrent
// use.
type observer struct {
	client  *client.Client
	began   time.Time
	wake    chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex           // guards what follows
	started bool                 // the goroutine runs, or has run
	closed  bool                 // it must not be started
	nodes   map[string]*observed // by path
	due     queue                // the same, the first to expire first
	last    queue                // the same, the last to expire first
}

func newObserver(c *client.Client) *observer {
	return &observer{client: c, began: time.Now(), wake: make(chan struct{}, 1), nodes: make(map[string]*observed), last: queue{order: lastFirst}}
}

// observers has the observer of a client.
var observers = client.NewSlot(func(c *client.Client) *observer {
	o := newObserver(c)
	c.AtClose(o.wait)
	return o
})

// See makes the client delete the node at path if it keeps this version for 33/32 of ttl. The client saw it at that instant.
func See(c *client.Client, path string, version int32, ttl time.Duration, at time.Time) {
	observers.Of(c).see(path, version, ttl, at)
}

// Forget ends the observation of a node, unless a later version of it was seen.
func Forget(c *client.Client, path string, version int32) { observers.Of(c).forget(path, version) }

// see records that the client saw this version at that instant, or before. Only the first
// sight of a version counts.
func (o *observer) see(path string, version int32, ttl time.Duration, at time.Time) {
	ttl += ttl / 32
	expires := at.Sub(o.began) + ttl
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[path]
	switch {
	case o.closed, n == nil && !o.makeRoom(expires), n != nil && n.version >= version:
		return
	case n == nil:
		n = &observed{path: path, version: version, ttl: ttl, expires: expires}
		o.nodes[path] = n
		o.due.add(n)
		o.last.add(n)
	default:
		n.version, n.ttl = version, ttl
		o.move(n, expires)
	}
	if !o.started {
		o.started = true
		o.running.Go(o.run)
	}
	if n.index[dueFirst] == 0 {
		o.ring()
	}
}

// makeRoom reports whether a node that expires then can be observed. If need be it ends the
// observation of the node that expires last. The caller holds mu.
func (o *observer) makeRoom(expires time.Duration) bool {
	if len(o.nodes) < maxObserved {
		return true
	}
	last := o.last.first()
	if last.expires <= expires {
		return false
	}
	o.remove(last)
	return true
}

// move changes when a node expires. The caller holds mu.
func (o *observer) move(n *observed, expires time.Duration) {
	n.expires = expires
	o.due.fix(n)
	o.last.fix(n)
}

// remove ends the observation of a node. The caller holds mu.
func (o *observer) remove(n *observed) {
	delete(o.nodes, n.path)
	o.due.remove(n)
	o.last.remove(n)
}

// forget ends the observation of a node, unless another version of it was seen.
func (o *observer) forget(path string, version int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.nodes[path]; n != nil && n.version <= version {
		o.remove(n)
	}
}

// restart makes the observations of all nodes that have expired begin now.
func (o *observer) restart() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Since(o.began)
	for n := o.due.first(); n != nil && n.expires <= now; n = o.due.first() {
		o.move(n, now+n.ttl)
	}
}

// wait waits for the goroutine to end, once the client is closing.
func (o *observer) wait() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.running.Wait()
}

func (o *observer) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// expired returns nodes that have expired by now, and how long until the next one does.
func (o *observer) expired() (expired []observed, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Since(o.began)
	wait = time.Hour
	expired = o.due.until(now, 0, nil)
	if n := o.due.first(); n != nil && len(expired) == 0 {
		wait = n.expires - now
	}
	return expired, wait
}

func (o *observer) run() {
	closing := o.client.Closing().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-closing:
			return
		case <-o.wake:
		case <-timer.C:
		}
		expired, wait := o.expired()
		if len(expired) > 0 {
			o.expire(expired)
			wait = 0
		}
		timer.Reset(wait)
	}
}

// expire deletes nodes that have expired. If no server answers, the observations begin again
// when one does: otherwise each outage would end all leases, whose holders could not renew
// them.
func (o *observer) expire(nodes []observed) {
	s := o.client.Newest()
	if s.Ended() != nil || !s.IsServed() {
		o.awaitServer()
		o.restart()
		return
	}
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout()/4)
	defer cancel()
	var unanswered atomic.Bool
	err := session.Each(s.Session, nodes, func(n observed) {
		deleted, err := expireNode(ctx, s, n)
		switch {
		case err != nil:
			unanswered.Store(true)
			return
		case deleted:
			o.client.Report().Expired(n.path)
		}
		o.forget(n.path, n.version)
	})
	if err != nil || unanswered.Load() {
		o.restart()
	}
}

// awaitServer waits until a server serves a session of the client, or the client is closing.
func (o *observer) awaitServer() {
	for {
		s, err := o.client.Session(o.client.Closing())
		if err != nil {
			return // closing, or refused for good
		}
		select {
		case <-s.Attached():
			return
		case <-s.Context().Done():
		case <-o.client.Closing().Done():
			return
		}
	}
}

// expireNode deletes the node if it still has the version that was observed. It returns an
// error if no server has answered.
func expireNode(ctx context.Context, s *client.Session, n observed) (deleted bool, err error) {
	// Read first: a node that was written again is left to its writer, without a write.
	stat, err := session.Call(ctx, s.Session, func(conn *zk.Conn) (*zk.Stat, error) {
		_, stat, err := conn.Get(n.path)
		return stat, err
	})
	if err == nil && stat.Version == n.version {
		_, err = session.Call(ctx, s.Session, func(conn *zk.Conn) (struct{}, error) {
			return struct{}{}, conn.Delete(n.path, n.version)
		})
		deleted = err == nil
	}
	if session.OutcomeOf(err) == session.Refused && !errors.Is(err, zk.ErrSessionExpired) {
		err = nil // missing, written again, or not permitted
	}
	return deleted, err
}
