// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"

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
//
// The tag is what this client believes, and in another life of the parent the
// numbers begin anew: a name of tag and number alone could be that of a claim,
// of this client or another, whose node went with the parent. Its Commit, Check
// and heartbeats would take the new node for its own. So a plain name is given
// only where the transaction begins with a check of a node that the session is
// known to have in this life of the parent, and fails as a whole in another. A
// session that has none puts a nonce into the name.
//
// With a version of the parent other than -1 the join is carried out only while the
// parent has that version, which each join of this library raises: errContended says
// that it has not, and nothing was created.
func (l *Line) join(ctx context.Context, s *session, version int32) (p *place, alone bool, err error) {
	missed := false // a witness has failed: the next one might, too
	for {
		v, err := l.learn(ctx, s)
		if err != nil {
			return nil, false, err
		}
		// Until it is sent a better name may be had. Of a burst of joins all but the
		// first few wait for their turn, and find the nodes of those.
		mine, err := s.takeTurn(ctx, contender)
		if err != nil {
			return nil, false, &Error{Op: "join", Path: l.path, Err: unsentErr{err}}
		}
		var witness *place
		if !v.late && !missed {
			witness = s.witness(l.path, v.tag)
		}
		p := newPlace(l.path, v.tag, l.client.nonces.next())
		data := l.scribe.record(p.nonce)
		p.inName, p.highest = witness == nil, v.highest
		s.enter(p)

		var parent *zk.Stat
		if v.ours {
			parent, err = l.joinAndWrite(ctx, s, mine, p, witness, data, version)
		} else {
			err = l.joinOnly(ctx, s, mine, p, witness, data)
		}
		switch {
		case err == nil:
			l.sawOwn(p)
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
			if parent != nil || witness != nil {
				p.verified = true
				s.vouch(p)
			}
			return p, parent != nil && parent.NumChildren == 1, nil
		case errors.Is(err, errMissed):
			s.cleared(p)
			missed = true
			if s.lost(witness) {
				l.forget() // perhaps with its parent
			}
		case errors.Is(err, errContended):
			s.cleared(p)
			return nil, false, err
		case errors.Is(err, errNotOurs):
			s.cleared(p)
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
				l.sawOwn(p)
				if p.recurs() {
					l.abandon(s, p)
					continue
				}
				if witness != nil {
					p.verified = true
					s.vouch(p)
				}
				return p, false, nil
			}
		case errors.Is(err, zk.ErrNoNode):
			s.cleared(p)
			l.forget()
		case errors.Is(err, zk.ErrNodeExists):
			// The counter has stuck: the name needs something of its own.
			s.cleared(p)
			if v.late {
				return nil, false, &Error{Op: "join", Path: l.path, Err: err}
			}
			l.stuck()
		default:
			s.cleared(p)
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
	if ctx.Err() == nil && s.ended() == nil {
		found, err = s.find(ctx, p)
		l.client.report.recovered(l.path, found, err)
		if err == nil && !found {
			s.cleared(p)
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

// errContended says that another contender has joined since the parent was read.
var errContended = errors.New("another contender has joined meanwhile")

// errMissed says that a join's witness was not there, and that nothing was created.
var errMissed = errors.New("no node of the session in this life of the parent")

// witnessed puts a check of the witness, if there is one, before the operations
// of a join.
func witnessed(witness *place, ops ...any) []any {
	if witness == nil {
		return ops
	}
	return append([]any{&zk.CheckVersionRequest{Path: witness.path, Version: 0}}, ops...)
}

// joinResults takes the witness's result off those of a join, whose error is err.
func joinResults(witness *place, results []zk.MultiResponse, err error) ([]zk.MultiResponse, error) {
	if witness == nil || len(results) == 0 {
		return results, err
	}
	if own := results[0].Error; errors.Is(own, zk.ErrNoNode) || errors.Is(own, zk.ErrBadVersion) {
		err = errMissed
	}
	return results[1:], err
}

// joinAndWrite joins in one round trip. It ends the turn.
func (l *Line) joinAndWrite(ctx context.Context, s *session, mine turn, p, witness *place, data []byte, version int32) (parent *zk.Stat, err error) {
	ops := witnessed(witness,
		&zk.CreateRequest{Path: p.prefix(), Data: data, Acl: l.client.settings.acl, Flags: zk.FlagEphemeral | zk.FlagSequence},
		&zk.SetDataRequest{Path: p.line, Data: []byte(parentMark), Version: version},
	)
	results, err := callInTurn(ctx, s, contender, mine, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ops...)
	})
	results, err = joinResults(witness, results, err)
	if err != nil {
		if len(results) == 2 && results[0].Error == nil && errors.Is(err, zk.ErrNoAuth) {
			return nil, errNotOurs
		}
		if len(results) == 2 && results[0].Error == nil && errors.Is(err, zk.ErrBadVersion) {
			return nil, errContended
		}
		return nil, err
	}
	if len(results) != 2 || results[1].Stat == nil {
		return nil, fmt.Errorf("server answered a join of 2 operations with %d results", len(results))
	}
	return results[1].Stat, p.know(results[0].String, results[1].Stat.Mzxid)
}

// joinOnly joins where the parent's data is not ours to write: the reply has the
// path alone, and the czxid takes a read of the own node. It ends the turn.
func (l *Line) joinOnly(ctx context.Context, s *session, mine turn, p, witness *place, data []byte) error {
	create := &zk.CreateRequest{Path: p.prefix(), Data: data, Acl: l.client.settings.acl, Flags: zk.FlagEphemeral | zk.FlagSequence}
	path, err := callInTurn(ctx, s, contender, mine, func(conn *zk.Conn) (string, error) {
		if witness == nil {
			return conn.Create(create.Path, create.Data, create.Flags, create.Acl)
		}
		results, err := conn.Multi(witnessed(witness, create)...)
		results, err = joinResults(witness, results, err)
		if err == nil && len(results) != 1 {
			err = fmt.Errorf("server answered a join of 1 operation with %d results", len(results))
		}
		if err != nil {
			return "", err
		}
		return results[0].String, nil
	})
	if err != nil {
		return err
	}
	_, stat, err := s.get(ctx, path)
	if err != nil {
		// It exists, or did: what is known of it is enough to take it away.
		return fmt.Errorf("%w: %w", ErrUncertain, errors.Join(p.know(path, 0), err))
	}
	return p.know(path, stat.Czxid)
}

// prefix is what the path of the place's node begins with: the server adds the
// number.
func (p *place) prefix() string { return p.line + "/" + namePrefix(p.tag, p.nameNonce()) }

// nameNonce is what the name has besides the tag.
func (p *place) nameNonce() string {
	if p.inName {
		return p.nonce
	}
	return ""
}

// joined notes that the place's node exists, for a caller that still wants it.
func (s *session) joined(p *place) {
	s.mu.Lock()
	only := s.ledger.joined(p)
	s.mu.Unlock()
	if only {
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
		parent, err := s.parents.ask(ctx, s, l.path, struct{}{}, func([]struct{}) (parent, error) { return s.readParent(l.path) })
		if err != nil {
			if ctx.Err() != nil {
				err = &Error{Op: "read", Path: l.path, Err: ctx.Err()}
			}
			return view{}, err
		}
		l.mu.Lock()
		if !l.known || l.parent != parent.czxid {
			// Numbers begin anew in each life of the parent.
			l.parent, l.highest, l.late, l.known = parent.czxid, -1, false, true
			l.ours = parent.ours
		}
		l.mu.Unlock()
	}
}

// A parent is what a server shows of the node below which contenders queue.
type parent struct {
	czxid int64
	ours  bool // its data is empty or this library's, and so may be written
}

// readParent reads the node at path, and makes it if it is missing.
func (s *session) readParent(path string) (parent, error) {
	for {
		data, stat, err := s.get(s.ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := s.createParents(s.ctx, path, []byte(parentMark)); err != nil {
				return parent{}, err
			}
		case err != nil:
			return parent{}, err
		default:
			return parent{stat.Czxid, len(data) == 0 || string(data) == parentMark}, nil
		}
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

// saw notes what is known of the numbers given out in that life of the parent. late
// says that they say nothing any more.
func (l *Line) saw(parent int64, highest int32, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if parent == l.parent {
		l.highest = max(l.highest, highest)
		l.late = l.late || late
	}
}

// sawOwn is saw for the node of a place.
func (l *Line) sawOwn(p *place) {
	if p.member.late() {
		l.saw(p.tag, -1, true)
		return
	}
	l.saw(p.tag, p.member.sequence, false)
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
	_, err := ask(ctx, s, "create", path, func(conn *zk.Conn) (string, error) {
		return conn.CreateContainer(path, data, zk.FlagContainer, s.settings.acl)
	})
	if outcomeOf(err) == unknown && !brokenOff(err) && ctx.Err() == nil {
		// An answer without a name: what a server without containers gives.
		_, err = ask(ctx, s, "create", path, func(conn *zk.Conn) (string, error) {
			return conn.Create(path, data, 0, s.settings.acl)
		})
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
