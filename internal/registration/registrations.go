// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// registrations are the registrations of one client, by path. A client has one registration of a path at a
// time: as both would be of one session, a server could not distinguish their nodes.
type registrations struct {
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool       // none must be started
	byPath map[string]*Registration
}

// registered has the registrations of a client.
var registered = client.NewSlot(func(c *client.Client) *registrations {
	rs := &registrations{}
	c.AtClose(rs.wait)
	return rs
})

// start starts the owner of a registration, once the node of an ended one of the same path is
// gone, or until ctx is done.
func (rs *registrations) start(ctx context.Context, r *Registration) error {
	for {
		old, err := rs.add(r)
		if err != nil || old == nil {
			return err
		}
		if err := old.await(ctx); err != nil {
			return err
		}
	}
}

// add adds the registration and starts its owner. If the node of an ended registration may
// remain, it returns that node instead.
func (rs *registrations) add(r *Registration) (*leftover, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return nil, sentinel.ErrClosed
	}
	if old := rs.byPath[r.path]; old != nil {
		old.mu.Lock()
		ended, left := old.err != nil, old.leftover
		old.mu.Unlock()
		switch {
		case !ended:
			return nil, errors.New("this client has already registered the path")
		case left.blocks():
			return left, nil
		}
	}
	if rs.byPath == nil {
		rs.byPath = make(map[string]*Registration)
	}
	rs.byPath[r.path] = r
	rs.running.Go(func() {
		(&registrar{Registration: r}).run()
		rs.remove(r)
	})
	return nil, nil
}

// remove removes a registration that has ended, once its node no longer keeps the next one from its path: a path
// need not be registered again, so no later call would remove it.
func (rs *registrations) remove(r *Registration) {
	r.mu.Lock()
	left := r.leftover
	r.mu.Unlock()
	if left.blocks() {
		_ = left.await(r.client.Closing())
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byPath[r.path] == r {
		delete(rs.byPath, r.path)
	}
}

// wait waits for the owners to end, once the client is closing.
func (rs *registrations) wait() {
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.running.Wait()
}

// A leftover is the node of a registration that has ended.
type leftover struct {
	session *client.Session
	node    *nodes.Node
}

// remains reports whether the node may exist. A session that expired has taken it along; one
// that was abandoned or closed may not have ended yet.
func (l *leftover) remains() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.node.Gone():
		return false
	default:
		return !errors.Is(l.session.Ended(), session.ErrExpired)
	}
}

// blocks reports whether the node may exist in a session that is not over. The node of a session
// that is over is another session's for the next registration, which waits for its deletion.
func (l *leftover) blocks() bool { return l.remains() && l.session.Ended() == nil }

// why returns what keeps the node from being deleted.
func (l *leftover) why() error {
	if over := l.session.Ended(); over != nil {
		return over
	}
	return errors.New("no server has confirmed it")
}

// await waits until the node is gone, or its session over, or ctx is done.
func (l *leftover) await(ctx context.Context) error {
	select {
	case <-l.node.Gone():
		return nil
	case <-l.session.Context().Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the node of this client's last registration of the path may remain", ctx.Err())
	}
}
