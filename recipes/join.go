// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// view is what a Line knows of its parent when an attempt begins.
type view struct {
	tag     int64
	ours    bool
	highest int32
	late    bool
}

// join creates a node of ours at the end of the line. alone is true if the reply
// shows that nobody is ahead of it.
//
// One transaction creates the node and writes the parent. Its reply has the new
// node's path and the parent's Stat as of that moment: the zxid of the write is
// the new node's czxid, the parent's czxid verifies the name, and the number of
// children may show that the line was empty.
func (l *Line) join(ctx context.Context, s *session) (p *place, alone bool, err error) {
	for {
		v, err := l.learn(ctx, s)
		if err != nil {
			return nil, false, err
		}
		p := newPlace(l.path, v.tag, l.client.nonces.next())
		data := l.scribe.record(p.nonce)
		p.inName, p.highest = v.late, v.highest
		s.ledger.enter(p)

		var parent *zk.Stat
		if v.ours {
			parent, err = l.joinAndWrite(ctx, s, p, data)
		} else {
			err = l.joinOnly(ctx, s, p, data)
		}
		switch {
		case err == nil:
			l.saw([]member{p.member})
			s.joined(p)
			if parent != nil && parent.Czxid != v.tag {
				// The name belongs to another life of the parent, and may recur.
				l.forget()
				l.abandon(s, p)
				continue
			}
			if p.recurs() {
				l.abandon(s, p)
				continue
			}
			if ctx.Err() != nil {
				// It was seen through to its answer, and its caller has gone.
				l.abandon(s, p)
				return nil, false, &Error{Op: "join", Path: l.path, Err: ctx.Err()}
			}
			return p, parent != nil && parent.NumChildren == 1, nil
		case errors.Is(err, errNotOurs):
			s.ledger.clear(p)
			l.notOurs()
		case outcomeOf(err) == unknown:
			found, findErr := l.recover(ctx, s, p, err)
			if findErr != nil {
				return nil, false, findErr
			}
			if !found && !brokenOff(err) {
				// An answer without a name: asking again would get the same.
				return nil, false, &Error{Op: "join", Path: l.path, Err: err}
			}
			if found {
				l.saw([]member{p.member})
				if p.recurs() {
					l.abandon(s, p)
					continue
				}
				return p, false, nil
			}
		case errors.Is(err, zk.ErrNoNode):
			s.ledger.clear(p)
			l.forget()
		case errors.Is(err, zk.ErrNodeExists):
			// The counter has stuck: the name needs something of its own.
			s.ledger.clear(p)
			if v.late {
				return nil, false, &Error{Op: "join", Path: l.path, Err: err}
			}
			l.stuck()
		default:
			s.ledger.clear(p)
			return nil, false, &Error{Op: "join", Path: l.path, Err: err}
		}
	}
}

// recurs says that another node can come to have the same name: where the counter
// sticks, numbers make no name unique, and without a nonce a late delete would hit
// a stranger.
func (p *place) recurs() bool { return p.member.late() && !p.inName }

// recover finds out what became of a create that was not answered. If it was
// carried out, the place is ours as if it had been answered.
func (l *Line) recover(ctx context.Context, s *session, p *place, cause error) (found bool, err error) {
	if ctx.Err() == nil && s.ctx.Err() == nil {
		found, err = s.find(ctx, p)
		l.client.report.recovered(l.path, found, err)
		if err == nil && !found {
			s.ledger.clear(p)
			return false, nil
		}
		if err == nil {
			s.joined(p)
			return true, nil
		}
	}
	l.abandon(s, p)
	return false, &Error{Op: "join", Path: l.path, Err: errors.Join(cause, err)}
}

// errNotOurs says that the parent's data may not be written by us.
var errNotOurs = errors.New("parent may not be written")

// joinAndWrite joins in one round trip.
func (l *Line) joinAndWrite(ctx context.Context, s *session, p *place, data []byte) (parent *zk.Stat, err error) {
	prefix := p.line + "/" + namePrefix(p.tag, p.nameNonce())
	var sent time.Time
	results, err := callThrough(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		sent = time.Now()
		return conn.Multi(
			&zk.CreateRequest{Path: prefix, Data: data, Acl: l.client.settings.acl, Flags: zk.FlagEphemeral | zk.FlagSequence},
			&zk.SetDataRequest{Path: p.line, Data: []byte(parentMark), Version: -1},
		)
	})
	if err != nil {
		if len(results) == 2 && results[0].Error == nil && errors.Is(err, zk.ErrNoAuth) {
			return nil, errNotOurs
		}
		return nil, err
	}
	s.trust.proof(sent, time.Now())
	if len(results) != 2 || results[1].Stat == nil {
		return nil, fmt.Errorf("server answered a transaction of 2 operations with %d results", len(results))
	}
	return results[1].Stat, p.know(results[0].String, results[1].Stat.Mzxid)
}

// joinOnly joins where the parent's data is not ours to write: the reply has the
// path alone, and the czxid takes a read of the own node.
func (l *Line) joinOnly(ctx context.Context, s *session, p *place, data []byte) error {
	prefix := p.line + "/" + namePrefix(p.tag, p.nameNonce())
	var sent time.Time
	path, err := callThrough(ctx, s, func(conn *zk.Conn) (string, error) {
		sent = time.Now()
		return conn.Create(prefix, data, zk.FlagEphemeral|zk.FlagSequence, l.client.settings.acl)
	})
	if err != nil {
		return err
	}
	s.trust.proof(sent, time.Now())
	_, stat, err := s.get(ctx, path)
	if err != nil {
		// It exists, or did: what is known of it is enough to take it away.
		return fmt.Errorf("%w: %w", ErrUncertain, errors.Join(p.know(path, 0), err))
	}
	return p.know(path, stat.Czxid)
}

// nameNonce is what the name has besides the tag.
func (p *place) nameNonce() string {
	if p.inName {
		return p.nonce
	}
	return ""
}

// joined notes that the place's node exists, for a caller that still wants it.
//
// If another place was held with a node of that name, the parent was deleted with all
// that was below it, and made again: its numbers have begun anew, and this join did not
// know yet. The other's node is gone, and heartbeats would take this one for it.
func (s *session) joined(p *place) {
	if former := s.ledger.heldAt(p.path); former != nil {
		s.bereave(former)
	}
	if only := s.ledger.joined(p); only {
		s.lookForBeat()
	}
}

// learn returns what is known of the parent. The first use of a path reads it,
// and makes it if it is missing.
func (l *Line) learn(ctx context.Context, s *session) (view, error) {
	for {
		l.mu.Lock()
		v, known := view{tag: l.parent, ours: l.ours, highest: l.highest, late: l.late}, l.known
		l.mu.Unlock()
		if known {
			return v, nil
		}
		data, stat, err := s.get(ctx, l.path)
		if errors.Is(err, zk.ErrNoNode) {
			if err := s.createParents(ctx, l.path, []byte(parentMark)); err != nil {
				return view{}, err
			}
			continue
		}
		if err != nil {
			return view{}, err
		}
		l.mu.Lock()
		if !l.known || l.parent != stat.Czxid {
			// Numbers begin anew in each life of the parent.
			l.parent, l.highest, l.late, l.known = stat.Czxid, -1, false, true
			l.ours = len(data) == 0 || string(data) == parentMark
		}
		l.mu.Unlock()
	}
}

// forget has the parent read again.
func (l *Line) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = false
}

// notOurs notes that the parent's data may not be written.
func (l *Line) notOurs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ours = false
}

// stuck notes that numbers do not make names unique any more.
func (l *Line) stuck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = true
}

// saw notes the numbers that were given out. Those in names that are not ours may
// not come from the parent's counter.
func (l *Line) saw(members []member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	prefix := strconv.FormatInt(l.parent, 36) + "-"
	for _, m := range members {
		switch {
		case !strings.HasPrefix(m.name, prefix):
		case m.late():
			l.late = true
		default:
			l.highest = max(l.highest, m.sequence)
		}
	}
}

// createParents makes the node at path, and those above it, as containers, which
// the server removes some time after their last child. Where the server has no
// containers, they are persistent.
func (s *session) createParents(ctx context.Context, path string, data []byte) error {
	err := s.createParent(ctx, path, data)
	if errors.Is(err, zk.ErrNoNode) && parentOf(path) != "/" {
		if err := s.createParents(ctx, parentOf(path), nil); err != nil {
			return err
		}
		err = s.createParent(ctx, path, data)
	}
	return err
}

func (s *session) createParent(ctx context.Context, path string, data []byte) error {
	_, err := read(ctx, s, "create", path, func(conn *zk.Conn) (string, error) {
		return conn.CreateContainer(path, data, zk.FlagContainer, s.settings.acl)
	})
	if outcomeOf(err) == unknown && !brokenOff(err) && ctx.Err() == nil {
		// An answer without a name: what a server without containers gives.
		_, err = read(ctx, s, "create", path, func(conn *zk.Conn) (string, error) {
			return conn.Create(path, data, 0, s.settings.acl)
		})
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
