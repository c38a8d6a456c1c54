// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Enter waits until n members wait at the same time, this one among them, and then begins a round with
// them. If more than n wait, n of them begin the round, and the others wait for the next one, in no
// order. A round begins when the one before it is over.
//
// ctx bounds the call and not the round. A round that begins when ctx ends can count the member, which
// has then left it. The wait continues across disconnections and sessions. After an error the member is
// in no round, and its node is deleted: in the background if no server confirms it in time. The error is ctx's, with
// recipes.ErrUncertain if that deletion was not confirmed: the others count the member until it is.
// Or it is recipes.ErrClosed, that with which a server refused, or a *SizeError if members of a barrier
// of another size are in it or wait, or recipes.ErrQueue if the node is the queue of a lock or an election.
func (d *Double) Enter(ctx context.Context) (*Round, error) {
	if ctx == nil {
		return nil, &recipes.Error{Op: "enter", Path: d.Path(), Err: errors.New("context is nil")}
	}
	f := &follower{double: d}
	defer f.close()
	for {
		r, err := d.open(ctx, f)
		if err == nil {
			var entered *Round
			if entered, err = d.enter(ctx, f, r.next()); entered != nil {
				return entered, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("enter: %w", err)
		}
	}
}

// open returns the record, for a member that waits for no round yet. It creates the record if it is missing, and changes
// its size if no member can mind.
func (d *Double) open(ctx context.Context, f *follower) (record, error) {
	for {
		r, changed, err := f.read(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err = d.create(ctx)
		case err == nil && r.Size == d.size:
			return r, nil
		case err == nil:
			err = d.resize(ctx, r, changed)
		}
		if err != nil {
			return record{}, err
		}
	}
}

// enter waits for one round, as a new member. It returns nil and no error if that round has begun without it.
func (d *Double) enter(ctx context.Context, f *follower, of round) (*Round, error) {
	id := newID()
	registration, err := registration.Register(ctx, d.client, d.path+"/"+of.name()+"/"+id, []byte(d.client.Owner()),
		&registration.Options{ReleaseTimeout: d.release})
	if err != nil {
		return nil, err
	}
	m := &member{follower: f, registration: registration, of: of, id: id}
	began, err := m.await(ctx)
	if began {
		return &Round{double: d, registration: registration, of: of}, nil
	}
	// It must not be counted for the round any more.
	if left := registration.Unregister(ctx); left != nil && err != nil {
		err = fmt.Errorf("%w: %w", err, left)
	}
	return nil, err
}

// A member waits for a round to begin. Its methods run on one goroutine.
type member struct {
	*follower
	registration *registration.Registration
	of           round
	id           string
	counted      time.Time // since when the member was registered when it last counted; zero if it must count
	due          time.Time // when it lists the members that wait; zero if it does not
}

// await waits until the round has begun. began is false if it has begun without the member.
func (m *member) await(ctx context.Context) (began bool, err error) {
	registered, stop := bell(ctx, m.registration)
	defer stop()
	for {
		r, changed, err := m.read(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			return false, nil // an operator has deleted the barrier: the round is one of its last life
		}
		if err != nil {
			return false, err
		}
		switch r.phaseOf(m.of, m.id) {
		case entered:
			return true, nil
		case missed:
			return false, nil
		}
		if err := m.advance(ctx, r, changed); err != nil {
			return false, err
		}
		select {
		case <-changed:
		case <-registered:
		case <-m.timer(r):
		case <-m.registration.Done():
			return false, m.registration.Err()
		case <-ctx.Done():
			return false, ended(ctx, m.registration.Path())
		}
	}
}

// timer returns a channel that receives when the member is to call advance again.
func (m *member) timer(r record) <-chan time.Time {
	switch {
	case !r.isOver():
		return time.After(m.double.interval())
	case !m.due.IsZero():
		return time.After(time.Until(m.due))
	}
	return nil
}

// advance does what the member can do to have its round begin: once the round before is over, it counts the members, and
// starts the round when it is due to.
func (m *member) advance(ctx context.Context, r record, changed <-chan struct{}) error {
	if !r.isOver() {
		m.counted, m.due = time.Time{}, time.Time{}
		return m.double.closeEmpty(ctx, r, changed) // all its members may have died
	}
	if state := m.registration.State(); state.Registered && !state.Since.Equal(m.counted) {
		if err := m.count(ctx, state.Since); err != nil {
			return err
		}
	}
	if m.due.IsZero() || time.Now().Before(m.due) {
		return nil
	}
	m.due = time.Time{}
	return m.double.start(ctx, r, changed)
}

// count counts the members that wait, and decides when this one, which is registered since that time, lists them.
//
// A round needs n nodes at the same time. Each member counts them once it has its own, and again when the round before is
// over. Of any n members, the one that came last counts n. One that counts n lists them: immediately if its node is the
// newest, and otherwise, as a newer member is about to do it, at a random instant later. So a thousand members that come at
// the same time do not all list a thousand.
func (m *member) count(ctx context.Context, since time.Time) error {
	nodes, newest, err := m.double.count(ctx, m.of)
	if err != nil {
		return err
	}
	m.counted, m.due = since, time.Time{}
	if nodes < m.double.size {
		return nil
	}
	own, err := m.czxid(ctx)
	if err != nil {
		return err
	}
	if m.due = time.Now(); own != newest {
		m.due = m.due.Add(m.double.interval()/4 + mathrand.N(m.double.interval()))
	}
	return nil
}

// czxid returns the czxid of the member's node, 0 if it is missing. As a rule this takes no request: the registration has
// read the node.
func (m *member) czxid(ctx context.Context) (int64, error) {
	name := m.of.name() + "/" + m.id
	contents, err := m.view.Read(ctx, []string{name})
	c, found := contents[name]
	switch {
	case err != nil && m.view.Ended() == nil:
		return 0, err
	case !found:
		return 0, nil
	}
	return c.Stat.Czxid, nil
}

// bell returns a channel that receives when the state of the registration has changed. stop ends that.
func bell(ctx context.Context, r *registration.Registration) (changed <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	rung, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for range r.States(ctx) {
			select {
			case rung <- struct{}{}:
			default:
			}
		}
	}()
	return rung, func() { cancel(); <-ended }
}

// newID returns the name of a member's node: another one for each call of Enter.
func newID() string { return strings.ToLower(rand.Text()[:12]) }
