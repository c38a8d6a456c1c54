// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A registrar keeps the node of one registration in existence. Its methods run on one goroutine.
type registrar struct {
	*Registration
	former   int64     // id of the last session in which the node was registered
	repaired time.Time // when the node was last restored
}

// run keeps the node registered until the registration ends.
func (r *registrar) run() {
	err := r.keep()
	r.client.Report().Log(slog.LevelInfo, "registration ended", "path", r.path, "cause", err)
	r.set(func() {
		r.session, r.since, r.cause, r.err = nil, time.Now(), err, &recipes.Error{Op: "register", Path: r.path, Err: err}
	})
	r.stop(err)
	close(r.done)
}

// keep registers the node in one session after the other. It returns why the registration ends.
func (r *registrar) keep() error {
	for {
		s, err := r.client.Session(r.life)
		if err == nil {
			err = r.keepIn(s)
		}
		switch {
		case r.client.Closing().Err() != nil:
			return sentinel.ErrClosed
		case r.life.Err() != nil:
			return context.Cause(r.life)
		case s == nil || s.Ended() == nil:
			return err
		}
		r.lost(s.Ended())
	}
}

// keepIn keeps the node registered in the session until that is over or the node is no longer
// wanted, or until a server refuses. Whatever node may then exist is left to the session.
func (r *registrar) keepIn(s *client.Session) error {
	for {
		n := nodes.NewNamed(zkpath.Parent(r.path), path.Base(r.path), r.client.Nonce())
		s.Nodes.Register(n)
		created, err := r.create(s, n)
		if err == nil {
			r.former = s.ID()
			err = r.attend(s)
		}
		switch {
		case !created:
			s.Nodes.MarkGone(n) // it never existed
			return err
		case !errors.Is(err, errNodeGone):
			r.discard(s, n)
			return err
		}
		s.Nodes.MarkGone(n)
		r.lost(sentinel.ErrDeleted)
		if err := r.pace(s); err != nil {
			return err
		}
	}
}

// errNodeGone reports that the session no longer has the node.
var errNodeGone = errors.New("node gone")

// create creates the node. It waits while another session has a node at the path. created reports whether the node may exist, also
// after an error: whether a create was not answered.
func (r *registrar) create(s *client.Session, n *nodes.Node) (created bool, err error) {
	for {
		data, revision := r.wanted()
		// It waits for the answer even if the node is no longer wanted: the deletion must not
		// overtake the create.
		_, err = session.CallAndWait(r.life, s.Session, session.Ordinary, func(conn *zk.Conn) (string, error) {
			return conn.Create(r.path, data, zk.FlagEphemeral, s.Client().ACL())
		})
		own := err == nil
		unanswered := !own && session.OutcomeOf(err) == session.Unknown
		if errors.Is(err, zk.ErrNodeExists) {
			revision = 0 // of the data of that node
			own, err = r.awaitFree(s, created)
		}
		created = created || own || unanswered
		switch {
		case own:
			n.Path = r.path
			r.registered(s, revision)
			return true, nil
		case err == nil: // the path may be free
		case errors.Is(err, zk.ErrNoNode) && zkpath.Parent(r.path) != "/":
			if err := s.CreateParents(r.life, zkpath.Parent(r.path), nil); err != nil {
				return created, err
			}
		case r.isUnanswered(s, err):
		default:
			return created, err
		}
	}
}

// isUnanswered reports whether a request of the session failed without an answer, and the registration can go on in it.
func (r *registrar) isUnanswered(s *client.Session, err error) bool {
	return session.OutcomeOf(err) == session.Unknown && session.Retryable(err) && s.Ended() == nil && r.life.Err() == nil
}

// awaitFree waits until the node at the path has changed. own reports that it is the node of a
// create of this session that was not answered. The server that refused the create had applied
// all that was committed before, so a read from it shows such a node.
func (r *registrar) awaitFree(s *client.Session, unanswered bool) (own bool, err error) {
	w, err := s.Watch(r.life, r.path, session.WatchNode)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	data, stat, _ := w.Content()
	switch owner := stat.EphemeralOwner; {
	case owner == 0:
		return false, errors.New("the path has a node that is not ephemeral")
	case owner == s.ID() && unanswered:
		return true, nil
	case owner != r.former:
		r.blocked(&recipes.TakenError{Session: owner, Since: time.UnixMilli(stat.Ctime), Data: bytes.Clone(data)})
	}
	return false, r.wait(s, w.Fired(), nil, nil)
}

// wait waits for one of the events. It returns an error if the session is over or the node is no longer wanted.
func (r *registrar) wait(s *client.Session, changed, wake <-chan struct{}, at <-chan time.Time) error {
	select {
	case <-changed:
	case <-wake:
	case <-at:
	case <-s.Context().Done():
		return s.Ended()
	case <-r.life.Done():
		return context.Cause(r.life)
	}
	return nil
}

// attend waits for changes of the node, which exists, and of the data that it is to have. It
// returns errNodeGone when the session no longer has the node.
func (r *registrar) attend(s *client.Session) error {
	for {
		w, err := s.Watch(r.life, r.path, session.WatchNode)
		if errors.Is(err, zk.ErrNoNode) {
			return errNodeGone
		}
		if err != nil {
			return err
		}
		current, stat, _ := w.Content()
		if stat.EphemeralOwner != s.ID() {
			return errNodeGone
		}
		if data, revision := r.wanted(); bytes.Equal(current, data) {
			r.wrote(revision)
			err = r.wait(s, w.Fired(), r.wake, nil)
		} else {
			err = r.restore(s, data, revision, stat.Version)
		}
		if err != nil {
			return err
		}
	}
}

// restore writes the data over a node that has another version, which another client may have written.
func (r *registrar) restore(s *client.Session, data []byte, revision int, version int32) error {
	if r.hasWritten(revision) { // so another client has overwritten it
		if err := r.pace(s); err != nil {
			return err
		}
	}
	return r.write(s, data, revision, version)
}

// write writes the data over the version that was read. After an answer that reveals nothing,
// the caller reads the node again.
func (r *registrar) write(s *client.Session, data []byte, revision int, version int32) error {
	_, err := session.CallAndWait(r.life, s.Session, session.Ordinary, func(conn *zk.Conn) (*zk.Stat, error) {
		return conn.Set(r.path, data, version)
	})
	switch {
	case err == nil:
		r.wrote(revision)
		return nil
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode), r.isUnanswered(s, err):
		return nil
	}
	return err
}

// pace waits until T/48 have passed since the node was last restored: a program that deletes or
// overwrites it continuously would otherwise cause as many requests in return.
func (r *registrar) pace(s *client.Session) error {
	if left := s.Timeout()/48 - time.Since(r.repaired); left > 0 {
		if err := r.wait(s, nil, nil, time.After(left)); err != nil {
			return err
		}
	}
	r.repaired = time.Now()
	return nil
}

// discard deletes the node that the session may have. It waits for that no longer than the
// release timeout, and not while no server serves the session.
func (r *registrar) discard(s *client.Session, n *nodes.Node) {
	r.set(func() {
		r.leftover = &leftover{s, n}
		if s.Ended() == nil && r.session != nil { // otherwise the caller sets the cause
			r.session, r.since, r.cause = nil, time.Now(), context.Cause(r.life)
		}
	})
	if r.client.Closing().Err() != nil {
		return // deleted with the session
	}
	limit := r.release
	if limit == 0 {
		limit = s.Timeout()
	}
	s.Discard(n, limit)
}

// wanted returns the data that the node is to have, and the number of its Update.
func (r *registrar) wanted() (data []byte, revision int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data, r.revision
}

// set changes the state, and notifies its readers.
func (r *registrar) set(change func()) {
	r.mu.Lock()
	change()
	changed := r.changed
	r.changed = make(chan struct{})
	r.mu.Unlock()
	close(changed)
}

func (r *registrar) registered(s *client.Session, revision int) {
	r.client.Report().Log(slog.LevelInfo, "registered", "path", r.path, "session", session.FormatID(s.ID()))
	r.set(func() {
		r.session, r.since, r.cause, r.leftover = s, time.Now(), nil, nil
		r.written = max(r.written, revision)
	})
}

func (r *registrar) wrote(revision int) {
	if !r.hasWritten(revision) {
		r.set(func() { r.written = revision })
	}
}

// hasWritten reports whether the node has had the data of that Update.
func (r *registrar) hasWritten(revision int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written >= revision
}

// blocked records that another session has the node.
func (r *registrar) blocked(by *recipes.TakenError) {
	r.client.Report().Log(slog.LevelWarn, "registration waits", "path", r.path, "cause", by)
	r.set(func() { r.cause = by })
}

// lost records that the session lost the node, or ended before it had one.
func (r *registrar) lost(cause error) {
	if cause == nil {
		cause = fmt.Errorf("%w: unknown cause", sentinel.ErrSessionExpired)
	}
	r.mu.Lock()
	was := r.session != nil
	r.mu.Unlock()
	if was {
		r.client.Report().Log(slog.LevelWarn, "registration lost, registering again", "path", r.path, "cause", cause)
	}
	r.set(func() {
		if was {
			r.since = time.Now()
		}
		r.session, r.cause = nil, cause
	})
}
