// SPDX-License-Identifier: Apache-2.0

package recipetest

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Election returns the election at the path of that name, for the candidate id.
func (s *Env) Election(client *recipes.Client, name, id string) *election.Election {
	s.T.Helper()
	return s.ElectionWith(client, name, election.Options{Owner: id})
}

// ElectionWith returns the election at the path of that name. By default its cool-down is 1 ns.
func (s *Env) ElectionWith(client *recipes.Client, name string, opts election.Options) *election.Election {
	s.T.Helper()
	if opts.CoolDown == 0 {
		opts.CoolDown = time.Nanosecond
	}
	e, err := election.New(client, s.Path(name), &opts)
	require.NoError(s.T, err)
	return e
}

// Forbidden creates the path of that name with an ACL that admits only the test itself.
func (s *Env) Forbidden(name string) {
	s.T.Helper()
	require.NoError(s.T, s.ZK.AddAuth("digest", []byte("test:secret")))
	_, err := s.ZK.Create(s.Path(name), nil, 0, zk.DigestACL(zk.PermAll, "test", "secret"))
	require.NoError(s.T, err)
}

// A Campaigning is a call of Campaign in its own goroutine.
type Campaigning struct {
	env   *Env
	ended chan struct{} // closed when Campaign has returned
	Term  *election.Term
	Err   error
	At    time.Time // immediately after the return
}

// Campaigning begins a call of Campaign. The test ends only after the call has returned.
func (s *Env) Campaigning(ctx context.Context, e *election.Election) *Campaigning {
	c := &Campaigning{env: s, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.Term, c.Err = e.Campaign(ctx)
		c.At = time.Now()
	}()
	s.T.Cleanup(func() { <-c.ended })
	return c
}

// Result waits until Campaign has returned, and returns its results.
func (c *Campaigning) Result() (*election.Term, error) {
	c.env.T.Helper()
	select {
	case <-c.ended:
		return c.Term, c.Err
	case <-c.env.Ctx.Done():
		require.FailNow(c.env.T, "Campaign has not returned")
		return nil, nil
	}
}

// Won waits until the candidate leads.
func (c *Campaigning) Won() *election.Term {
	c.env.T.Helper()
	term, err := c.Result()
	require.NoError(c.env.T, err)
	return term
}

// Over reports whether Campaign has returned.
func (c *Campaigning) Over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Campaign waits until the candidate leads.
func (s *Env) Campaign(e *election.Election) *election.Term {
	s.T.Helper()
	return s.Campaigning(s.Ctx, e).Won()
}

// Resign resigns the term.
func (s *Env) Resign(term *election.Term) {
	s.T.Helper()
	require.NoError(s.T, term.Resign(s.Ctx))
}

// An Observing is a call of Observe in its own goroutine.
type Observing struct {
	env       *Env
	Stop      context.CancelFunc // ends its ctx
	Sightings chan Sighting      // closed when Observe has ended
}

// A Sighting is one element of Observe.
type Sighting struct {
	Leader election.Leader
	Err    error
}

// Observing begins a call of Observe. The test ends only after the call has returned.
func (s *Env) Observing(e *election.Election) *Observing {
	ctx, stop := context.WithCancel(s.Ctx)
	o := &Observing{env: s, Stop: stop, Sightings: make(chan Sighting, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(o.Sightings)
		for leader, err := range e.Observe(ctx) {
			o.Sightings <- Sighting{leader, err}
		}
	}()
	s.T.Cleanup(func() {
		stop()
		<-ended
	})
	return o
}

// Next waits for the next element. more reports whether there is one.
func (o *Observing) Next() (seen Sighting, more bool) {
	o.env.T.Helper()
	select {
	case seen, more := <-o.Sightings:
		return seen, more
	case <-o.env.Ctx.Done():
		require.FailNow(o.env.T, "the observer has seen no leader")
		return Sighting{}, false
	}
}

// Sees waits for the next element, and requires that it is the leader of the term.
func (o *Observing) Sees(term *election.Term) {
	o.env.T.Helper()
	seen, more := o.Next()
	require.True(o.env.T, more, "Observe has ended without an error")
	require.NoError(o.env.T, seen.Err)
	require.Equal(o.env.T, term.Owner(), seen.Leader.Owner)
	require.Equal(o.env.T, term.Token(), seen.Leader.Token)
}

// End waits for the last element, and returns its error.
func (o *Observing) End() error {
	o.env.T.Helper()
	seen, more := o.Next()
	require.True(o.env.T, more, "Observe has ended without an error")
	require.Error(o.env.T, seen.Err, "%v", seen.Leader)
	require.Zero(o.env.T, seen.Leader)
	_, more = o.Next()
	require.False(o.env.T, more, "Observe has gone on after an error")
	return seen.Err
}
