// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Requests sends single requests about the contenders of one queue. It
// sends all of them in one session: no answer is older than an earlier one.
//
// Errors wrap the server's refusal, zk.ErrNoNode or zk.ErrBadVersion for instance; or
// ErrUncertain if the outcome of a write is unknown; or the error of ctx, or the reason for the
// end of the session, if the request was not sent. A Requests is safe for concurrent use.
type Requests struct {
	queue   *queue.Queue
	session *client.Session
}

// NewRequests returns a Requests in the client's current session, for which it waits until ctx
// is done.
func NewRequests(ctx context.Context, q *queue.Queue) (*Requests, error) {
	s, err := q.Client.Session(ctx)
	if err != nil {
		return nil, &recipes.Error{Op: "lease", Path: q.Path(), Err: sentinel.WithCtx(ctx, err)}
	}
	return &Requests{q, s}, nil
}

// Ended returns why the session is over, nil if it is not.
func (r *Requests) Ended() error { return r.session.Ended() }

// Names lists the contenders' nodes, the front first. The listing begins after the call. The caller
// must not change the result: other callers share it.
func (r *Requests) Names(ctx context.Context) ([]string, error) {
	lst, err := queue.List(ctx, r.session, r.queue.Path())
	if err != nil {
		return nil, err
	}
	return r.names(ctx, lst)
}

// NamesSoon is Names for a caller that can wait for some time, if the queue is long: 0.1 s for each
// thousand contenders. Callers of one client that ask meanwhile share the listing, so that they cost
// no more, however many they are.
func (r *Requests) NamesSoon(ctx context.Context) ([]string, error) {
	lst, err := r.queue.ListSoon(ctx, r.session)
	if err != nil {
		return nil, err
	}
	return r.names(ctx, lst)
}

func (r *Requests) names(ctx context.Context, lst *queue.Listing) ([]string, error) {
	if lst.Plain {
		return lst.Names(), nil
	}
	members, err := r.queue.Order(ctx, r.session, slices.Clone(lst.Members))
	if err != nil {
		return nil, err
	}
	return queue.NamesOf(members), nil
}

// Sync waits until the server that serves the session has received what the ensemble's leader had
// committed by then, so that reads that follow are not older than that. A leader that is isolated
// answers for itself, until it learns that another one was elected.
func (r *Requests) Sync(ctx context.Context) error {
	_, err := session.Retry(ctx, r.session.Session, "sync", r.queue.Path(), func(conn *zk.Conn) (string, error) {
		return conn.Sync(r.queue.Path())
	})
	return err
}

// Read reads one contender. The server may lag behind other servers, but not behind an
// earlier answer.
func (r *Requests) Read(ctx context.Context, name string) (Contender, error) {
	data, stat, err := r.session.Get(ctx, r.path(name))
	if err != nil {
		return Contender{}, err
	}
	return contenderOf(name, data, stat), nil
}

// Observe is Queue.Observe.
func (r *Requests) Observe(c Contender) { r.queue.Observe(c.Contender) }

// A ContenderWatch is a watch that Requests.Watch has set.
type ContenderWatch struct {
	Contender Contender // as it was when the watch was set
	watch     *session.Watch
}

// Fired returns a channel that is closed when the contender has changed or left, or the session is
// over.
func (w *ContenderWatch) Fired() <-chan struct{} { return w.watch.Fired() }

// Changed reports whether it was a change: then the contender was not gone. It is valid once the
// watch has fired.
func (w *ContenderWatch) Changed() bool { return w.watch.Changed() }

// Deleted reports whether it was the contender's departure. It is valid once the watch has fired.
func (w *ContenderWatch) Deleted() bool { return w.watch.Deleted() }

// Watch is Read, with a watch. It observes the contender: see Queue.Observe.
func (r *Requests) Watch(ctx context.Context, name string) (*ContenderWatch, error) {
	w, err := r.session.Watch(ctx, r.queue.Path()+"/"+name, session.WatchNode)
	if err != nil {
		return nil, err
	}
	data, stat, at := w.Content()
	c := contenderOf(name, data, stat)
	r.queue.ObserveAt(c.Contender, at)
	return &ContenderWatch{Contender: c, watch: w}, nil
}

// WatchQueue returns a channel that is closed when a contender has joined or left since the
// call began, or the session is over. It returns zk.ErrNoNode, and leaves no watch, if the
// queue's node is missing: a watch for a creation that never comes would stay with the session.
func (r *Requests) WatchQueue(ctx context.Context) (<-chan struct{}, error) {
	w, err := r.session.Watch(ctx, r.queue.Path(), session.WatchChildren)
	if err != nil {
		return nil, err
	}
	return w.Fired(), nil
}

// Create joins the queue with a lease, as Claim does with a contender of the session. hint is
// part of the node's name. alone reports whether the answer shows that no contender is ahead.
// It observes the lease.
//
// If ctx ends before the answer, the node is deleted, unless a client has written it by then.
func (r *Requests) Create(ctx context.Context, hint string, l Lease, acl []zk.ACL) (c Contender, alone bool, err error) {
	if len(acl) == 0 {
		acl = r.queue.Client.ACL()
	}
	l.created = created{host: r.queue.Host, pid: r.queue.PID, time: time.Now().UTC()}
	if _, err := l.encode(); err != nil {
		return Contender{}, false, &recipes.Error{Op: "join", Path: r.queue.Path(), Err: err}
	}
	p, alone, err := r.queue.Join(ctx, r.session, queue.Entry{Lease: true, Hint: hint, ACL: acl, Data: func(p *queue.Place) []byte {
		l.created.nonce = p.Nonce
		data, _ := l.encode() // as above
		return data
	}}, -1)
	if err != nil {
		return Contender{}, false, certain(err)
	}
	c = Contender{Lease: &l, Contender: recipes.Contender{
		Name: p.Member.Name, Token: fencing.Token(p.Member.Czxid), Owner: l.Owner, Host: l.created.host, PID: l.created.pid,
		Since: l.created.time, Kind: recipes.KindLease, TTL: l.TTL, Held: l.Held, Written: l.created.time,
	}}
	r.queue.Observe(c.Contender)
	return c, alone, nil
}

// Write replaces the record of a lease, which c was read from, and returns the contender that
// results. It observes the new version.
func (r *Requests) Write(ctx context.Context, c Contender, l Lease) (Contender, error) {
	data, err := l.encode()
	if err != nil {
		return c, &recipes.Error{Op: "write", Path: r.path(c.Name), Err: err}
	}
	stat, err := r.set(ctx, c.Name, data, c.Version)
	if err != nil {
		return c, err
	}
	c = c.written(l, stat)
	r.queue.Observe(c.Contender)
	return c, nil
}

// Revocable reports whether the contender belongs to a session of this library, and only that
// session has written its record: at most once, to downgrade a claim.
func (c Contender) Revocable() bool {
	return c.Kind == recipes.KindSession && c.TTL > 0 && c.Revoked == nil && (c.Version == 0 || c.Version == 1 && c.Shared)
}

// Revoke adds a revocation to the record of a session's contender, which must be Revocable, and
// observes the new version.
func (r *Requests) Revoke(ctx context.Context, name string, why recipes.Revocation) error {
	data, stat, err := r.session.Get(ctx, r.path(name))
	if err != nil {
		return err
	}
	c := contenderOf(name, data, stat)
	if c.Kind != recipes.KindSession || c.TTL <= 0 {
		return &recipes.Error{Op: "revoke", Path: r.path(name), Err: errors.New("record has no session timeout")}
	}
	if data, err = revoke(data, why); err != nil {
		return &recipes.Error{Op: "revoke", Path: r.path(name), Err: err}
	}
	version := int32(0)
	if c.Version == 1 && c.Revocable() {
		version = 1
	}
	if _, err := r.set(ctx, name, data, version); err != nil {
		return err
	}
	c.Version, c.Revoked = version+1, &why
	r.queue.Observe(c.Contender)
	return nil
}

func (r *Requests) set(ctx context.Context, name string, data []byte, version int32) (*zk.Stat, error) {
	stat, err := session.Call(ctx, r.session.Session, func(conn *zk.Conn) (*zk.Stat, error) {
		return conn.Set(r.path(name), data, version)
	})
	if err != nil {
		return nil, certain(&recipes.Error{Op: "write", Path: r.path(name), Err: err})
	}
	return stat, nil
}

// Delete deletes a contender's node with that version, or with any if version is -1.
func (r *Requests) Delete(ctx context.Context, name string, version int32) error {
	_, err := session.Call(ctx, r.session.Session, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(r.path(name), version)
	})
	if err != nil {
		return certain(&recipes.Error{Op: "delete", Path: r.path(name), Err: err})
	}
	r.queue.Forget(name)
	return nil
}

// Check asks a quorum whether the contender's node exists. A read that follows is at least as
// new as the quorum's answer. It returns zk.ErrNoNode if the node does not exist.
func (r *Requests) Check(ctx context.Context, name string) error {
	_, err := session.Retry(ctx, r.session.Session, "check", r.path(name), func(conn *zk.Conn) (struct{}, error) {
		results, err := conn.Multi(&zk.CheckVersionRequest{Path: r.path(name), Version: -1})
		if len(results) == 1 && results[0].Error != nil {
			err = results[0].Error
		}
		return struct{}{}, err
	})
	return err
}

func (r *Requests) path(name string) string { return r.queue.Path() + "/" + name }

// certain adds ErrUncertain to an error that leaves the outcome of a write unknown.
func certain(err error) error {
	if session.OutcomeOf(err) != session.Unknown || errors.Is(err, sentinel.ErrUncertain) {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
}
