// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// election returns the election at the path of that name, for the candidate id.
func (s *env) election(client *recipes.Client, name, id string) *election.Election {
	s.t.Helper()
	return s.electionWith(client, name, election.Options{ID: id})
}

// electionWith returns the election at the path of that name. By default its cool-down is 1 ns.
func (s *env) electionWith(client *recipes.Client, name string, opts election.Options) *election.Election {
	s.t.Helper()
	if opts.CoolDown == 0 {
		opts.CoolDown = time.Nanosecond
	}
	e, err := election.New(client, s.path(name), &opts)
	require.NoError(s.t, err)
	return e
}

// forbidden creates the path of that name with an ACL that admits only the test itself.
func (s *env) forbidden(name string) {
	s.t.Helper()
	require.NoError(s.t, s.zk.AddAuth("digest", []byte("test:secret")))
	_, err := s.zk.Create(s.path(name), nil, 0, zk.DigestACL(zk.PermAll, "test", "secret"))
	require.NoError(s.t, err)
}

// expires waits until the ensemble has ended the session.
func (s *env) expires(session int64) {
	s.t.Helper()
	leader := s.leader() // only the leader lists all sessions
	s.eventually(fmt.Sprintf("the end of session 0x%x", session), func() bool {
		dump, err := leader.FourLetter(s.ctx, "dump")
		require.NoError(s.t, err)
		return !strings.Contains(dump, fmt.Sprintf("0x%x\n", session))
	})
}

// A campaigning is a call of Campaign in its own goroutine.
type campaigning struct {
	env   *env
	ended chan struct{} // closed when Campaign has returned
	term  *election.Term
	err   error
	at    time.Time // immediately after the return
}

// campaigning begins a call of Campaign. The test ends only after the call has returned.
func (s *env) campaigning(ctx context.Context, e *election.Election) *campaigning {
	c := &campaigning{env: s, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.term, c.err = e.Campaign(ctx)
		c.at = time.Now()
	}()
	s.t.Cleanup(func() { <-c.ended })
	return c
}

// result waits until Campaign has returned, and returns its results.
func (c *campaigning) result() (*election.Term, error) {
	c.env.t.Helper()
	select {
	case <-c.ended:
		return c.term, c.err
	case <-c.env.ctx.Done():
		require.FailNow(c.env.t, "Campaign has not returned")
		return nil, nil
	}
}

// won waits until the candidate leads.
func (c *campaigning) won() *election.Term {
	c.env.t.Helper()
	term, err := c.result()
	require.NoError(c.env.t, err)
	return term
}

// over reports whether Campaign has returned.
func (c *campaigning) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// campaign waits until the candidate leads.
func (s *env) campaign(e *election.Election) *election.Term {
	s.t.Helper()
	return s.campaigning(s.ctx, e).won()
}

// resign resigns the term.
func (s *env) resign(term *election.Term) {
	s.t.Helper()
	require.NoError(s.t, term.Resign(s.ctx))
}

// An observing is a call of Observe in its own goroutine.
type observing struct {
	env       *env
	stop      context.CancelFunc // ends its ctx
	sightings chan sighting      // closed when Observe has ended
}

// A sighting is one element of Observe.
type sighting struct {
	leader election.Leader
	err    error
}

// observing begins a call of Observe. The test ends only after the call has returned.
func (s *env) observing(e *election.Election) *observing {
	ctx, stop := context.WithCancel(s.ctx)
	o := &observing{env: s, stop: stop, sightings: make(chan sighting, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(o.sightings)
		for leader, err := range e.Observe(ctx) {
			o.sightings <- sighting{leader, err}
		}
	}()
	s.t.Cleanup(func() {
		stop()
		<-ended
	})
	return o
}

// next waits for the next element. more reports whether there is one.
func (o *observing) next() (seen sighting, more bool) {
	o.env.t.Helper()
	select {
	case seen, more := <-o.sightings:
		return seen, more
	case <-o.env.ctx.Done():
		require.FailNow(o.env.t, "the observer has seen no leader")
		return sighting{}, false
	}
}

// sees waits for the next element, and requires that it is the leader of the term.
func (o *observing) sees(term *election.Term) {
	o.env.t.Helper()
	seen, more := o.next()
	require.True(o.env.t, more, "Observe has ended without an error")
	require.NoError(o.env.t, seen.err)
	require.Equal(o.env.t, term.ID(), seen.leader.ID)
	require.Equal(o.env.t, term.Token(), seen.leader.Token)
}

// end waits for the last element, and returns its error.
func (o *observing) end() error {
	o.env.t.Helper()
	seen, more := o.next()
	require.True(o.env.t, more, "Observe has ended without an error")
	require.Error(o.env.t, seen.err, "%v", seen.leader)
	require.Zero(o.env.t, seen.leader)
	_, more = o.next()
	require.False(o.env.t, more, "Observe has gone on after an error")
	return seen.err
}
