// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestObserverSeesEveryHandOver(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.connect(recipes.Options{})
	const terms = 8
	var campaigns []*campaigning
	for i := range terms {
		campaigns = append(campaigns, s.campaigning(s.ctx, s.election(client, "election", fmt.Sprint(i))))
		s.waiting("election", i+1)
	}
	seen := 0
	for leader, err := range s.election(s.connect(recipes.Options{}), "election", "").Observe(s.ctx) {
		require.NoError(t, err)
		term := campaigns[seen].won()
		require.Equal(t, term.ID(), leader.ID)
		require.Equal(t, term.Token(), leader.Token)
		if seen++; seen == terms {
			s.resign(term)
			break
		}
		s.resign(term)
	}
	require.Equal(t, terms, seen)
}

func TestSlowObserverSkipsToTheNewest(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	e := s.election(s.connect(recipes.Options{}), "election", "")
	term := s.campaign(e)
	seen := 0
	for leader, err := range s.election(s.connect(recipes.Options{}), "election", "").Observe(s.ctx) {
		require.NoError(t, err)
		require.Equal(t, term.Token(), leader.Token)
		if seen++; seen == 3 {
			break
		}
		for range 5 {
			s.resign(term)
			term = s.campaign(e)
		}
	}
	s.resign(term)
}

// A time without a leader is neither a leader nor the end of the observation.
func TestObserverSeesTheLeaderAfterATimeWithoutOne(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	e := s.election(s.connect(recipes.Options{}), "election", "")
	observer := s.observing(s.election(s.connect(recipes.Options{}), "election", ""))
	for range 3 {
		term := s.campaign(e)
		observer.sees(term)
		s.resign(term)
	}
	observer.stop()
	require.ErrorIs(t, observer.end(), context.Canceled, "without an element in between")
}

func TestObserverSeesTheFirstLeaderOfAMissingPath(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	observer := s.observing(s.election(s.connect(recipes.Options{}), "above/election", ""))
	e := s.election(s.connect(recipes.Options{}), "above/election", "")
	s.waitForWatch("above/election")
	term := s.campaign(e)
	observer.sees(term)
	s.resign(term)

	// The servers reap an empty container, and the next candidate creates it again.
	s.eventually("the path is gone", func() bool {
		exists, _, err := s.zk.Exists(s.path("above/election"))
		require.NoError(t, err)
		return !exists
	})
	s.waitForWatch("above/election")
	term = s.campaign(e)
	observer.sees(term)
	s.resign(term)
}

// waitForWatch waits until a client watches the path of that name, or a node below it.
func (s *env) waitForWatch(name string) {
	s.t.Helper()
	path := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(s.path(name)) + "(/|$)")
	s.eventually("a watch on "+name, func() bool {
		for _, server := range s.ensemble.Servers() {
			watches, err := server.FourLetter(s.ctx, "wchp")
			require.NoError(s.t, err)
			if path.MatchString(watches) {
				return true
			}
		}
		return false
	})
}

// A leader that is elected between the observer's read and its watch does not trigger the watch.
func TestObserverMissesNoLeaderThatComesBeforeItsWatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		opcode  uint32 // of the request that sets the watch
		prepare func(s *env, e *election.Election) (change func() *election.Term)
	}{
		{"on a missing path", 3, func(s *env, e *election.Election) func() *election.Term {
			return func() *election.Term { return s.campaign(e) }
		}},
		{"on an empty path", 12, func(s *env, e *election.Election) func() *election.Term {
			_, err := s.zk.Create(s.path("election"), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(s.t, err)
			return func() *election.Term { return s.campaign(e) }
		}},
		{"on the previous leader", 4, func(s *env, e *election.Election) func() *election.Term {
			before := s.campaign(e)
			return func() *election.Term {
				s.resign(before)
				return s.campaign(e)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			change := tc.prepare(s, s.election(s.connect(recipes.Options{}), "election", ""))
			proxy := s.proxy(s.ensemble.Servers()[0])
			client := s.connect(recipes.Options{}, proxy.Addr())

			// The proxy delays the first request that sets a watch, until the leader has changed.
			held, changed := make(chan struct{}), make(chan struct{})
			var once sync.Once
			proxy.LoseReply(func(frame []byte) bool {
				if len(frame) > 8 && binary.BigEndian.Uint32(frame[4:]) == tc.opcode && frame[len(frame)-1] == 1 {
					once.Do(func() {
						close(held)
						select {
						case <-changed:
						case <-s.ctx.Done():
						}
					})
				}
				return false
			})
			observer := s.observing(s.election(client, "election", ""))
			select {
			case <-held:
			case <-s.ctx.Done():
				require.FailNow(t, "no watch was set")
			}
			term := change()
			close(changed)
			observer.sees(term)
			s.resign(term)
		})
	}
}

func TestObserverEndsWithAReason(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	leader := s.campaign(s.election(s.connect(recipes.Options{}), "election", "leader"))

	cancelled := s.observing(s.election(s.connect(recipes.Options{}), "election", ""))
	cancelled.sees(leader)
	cancelled.stop()
	err := cancelled.end()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, s.path("election"))

	why := errors.New("requested by the operator")
	ctx, end := context.WithCancelCause(s.ctx)
	defer end(nil)
	for seen, err := range s.election(s.connect(recipes.Options{}), "election", "").Observe(ctx) {
		if err == nil {
			require.Equal(t, leader.Token(), seen.Token)
			end(why)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
	}

	client := s.connect(recipes.Options{})
	closed := s.observing(s.election(client, "election", ""))
	closed.sees(leader)
	client.Close()
	require.ErrorIs(t, closed.end(), recipes.ErrClosed)

	s.forbidden("forbidden")
	refused := s.observing(s.election(s.connect(recipes.Options{}), "forbidden", ""))
	require.ErrorIs(t, refused.end(), zk.ErrNoAuth)

	waiting := s.observing(s.election(s.connect(recipes.Options{}), "vacant", ""))
	s.waitForWatch("vacant")
	waiting.stop()
	require.ErrorIs(t, waiting.end(), context.Canceled, "it has seen no leader")
	s.resign(leader)
}

func TestObserverRidesOutDisconnectionAndNextSession(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	e := s.election(s.connect(recipes.Options{}), "election", "")
	var opts recipes.Options
	ender := s.sessionEnder(&opts)
	proxy := s.proxy(s.ensemble.Servers()[0])
	client := s.connect(opts, proxy.Addr())
	session := client.SessionID()
	observer := s.observing(s.election(client, "election", ""))
	term := s.campaign(e)
	observer.sees(term)
	handOver := func() {
		t.Helper()
		s.resign(term)
		term = s.campaign(e)
	}

	// Disconnected, and connected again in the same session: while it watches the leader, and while it watches the path.
	proxy.Refuse()
	handOver()
	proxy.Heal()
	observer.sees(term)
	s.resign(term)
	s.waitForWatch("election")
	proxy.Refuse()
	term = s.campaign(e)
	proxy.Heal()
	observer.sees(term)
	require.Equal(t, session, client.SessionID())

	// In the next session the leader is the same: the observer yields no element.
	ender.expire()
	s.eventually("a new session", func() bool { return client.SessionID() != session })
	s.waitForWatch("election")
	handOver()
	observer.sees(term)

	// Disconnected until the session has expired and another candidate leads.
	session = client.SessionID()
	proxy.Refuse()
	ender.expire()
	handOver()
	proxy.Heal()
	observer.sees(term)
	require.NotEqual(t, session, client.SessionID())

	// Partitioned, without notification.
	session = client.SessionID()
	proxy.Drop(docker.Both)
	s.expires(session)
	handOver()
	proxy.Heal()
	observer.sees(term)
	require.NotEqual(t, session, client.SessionID())
	handOver()
	observer.sees(term)
	s.resign(term)
}
