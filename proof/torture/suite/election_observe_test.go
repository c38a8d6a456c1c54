// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/binary"
	"errors"
	"regexp"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestObserverSeesTheFirstLeaderOfAMissingPath(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	observer := s.Observing(s.Election(s.Connect(recipes.Options{}), "above/election", ""))
	e := s.Election(s.Connect(recipes.Options{}), "above/election", "")
	s.waitForWatch("above/election")
	term := s.Campaign(e)
	observer.Sees(term)
	s.Resign(term)

	// The servers reap an empty container, and the next candidate creates it again.
	s.Eventually("the path is gone", func() bool {
		exists, _, err := s.ZK.Exists(s.Path("above/election"))
		require.NoError(t, err)
		return !exists
	})
	s.waitForWatch("above/election")
	term = s.Campaign(e)
	observer.Sees(term)
	s.Resign(term)
}

// waitForWatch waits until a client watches the path of that name, or a node below it.
func (s *env) waitForWatch(name string) {
	s.T.Helper()
	path := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(s.Path(name)) + "(/|$)")
	s.Eventually("a watch on "+name, func() bool {
		for _, server := range s.ensemble.Servers() {
			watches, err := server.FourLetter(s.Ctx, "wchp")
			require.NoError(s.T, err)
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
			return func() *election.Term { return s.Campaign(e) }
		}},
		{"on an empty path", 12, func(s *env, e *election.Election) func() *election.Term {
			_, err := s.ZK.Create(s.Path("election"), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(s.T, err)
			return func() *election.Term { return s.Campaign(e) }
		}},
		{"on the previous leader", 4, func(s *env, e *election.Election) func() *election.Term {
			before := s.Campaign(e)
			return func() *election.Term {
				s.Resign(before)
				return s.Campaign(e)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := onOne(t)
			change := tc.prepare(s, s.Election(s.Connect(recipes.Options{}), "election", ""))
			proxy := s.proxy(s.ensemble.Servers()[0])
			client := s.Connect(recipes.Options{}, proxy.Addr())

			// The proxy delays the first request that sets a watch, until the leader has changed.
			held, changed := make(chan struct{}), make(chan struct{})
			var once sync.Once
			proxy.LoseReply(func(frame []byte) bool {
				if len(frame) > 8 && binary.BigEndian.Uint32(frame[4:]) == tc.opcode && frame[len(frame)-1] == 1 {
					once.Do(func() {
						close(held)
						select {
						case <-changed:
						case <-s.Ctx.Done():
						}
					})
				}
				return false
			})
			observer := s.Observing(s.Election(client, "election", ""))
			select {
			case <-held:
			case <-s.Ctx.Done():
				require.FailNow(t, "no watch was set")
			}
			term := change()
			close(changed)
			observer.Sees(term)
			s.Resign(term)
		})
	}
}

func TestObserverEndsWithAReason(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	leader := s.Campaign(s.Election(s.Connect(recipes.Options{}), "election", "leader"))

	cancelled := s.Observing(s.Election(s.Connect(recipes.Options{}), "election", ""))
	cancelled.Sees(leader)
	cancelled.Stop()
	err := cancelled.End()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, s.Path("election"))

	why := errors.New("requested by the operator")
	ctx, end := context.WithCancelCause(s.Ctx)
	defer end(nil)
	for seen, err := range s.Election(s.Connect(recipes.Options{}), "election", "").Observe(ctx) {
		if err == nil {
			require.Equal(t, leader.Token(), seen.Token)
			end(why)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
	}

	client := s.Connect(recipes.Options{})
	closed := s.Observing(s.Election(client, "election", ""))
	closed.Sees(leader)
	client.Close()
	require.ErrorIs(t, closed.End(), recipes.ErrClosed)

	s.Forbidden("forbidden")
	refused := s.Observing(s.Election(s.Connect(recipes.Options{}), "forbidden", ""))
	require.ErrorIs(t, refused.End(), zk.ErrNoAuth)

	waiting := s.Observing(s.Election(s.Connect(recipes.Options{}), "vacant", ""))
	s.waitForWatch("vacant")
	waiting.Stop()
	require.ErrorIs(t, waiting.End(), context.Canceled, "it has seen no leader")
	s.Resign(leader)
}

func TestObserverRidesOutDisconnectionAndNextSession(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	e := s.Election(s.Connect(recipes.Options{}), "election", "")
	var opts recipes.Options
	ender := s.sessionEnder(&opts)
	proxy := s.proxy(s.ensemble.Servers()[0])
	client := s.Connect(opts, proxy.Addr())
	session := client.SessionID()
	observer := s.Observing(s.Election(client, "election", ""))
	term := s.Campaign(e)
	observer.Sees(term)
	handOver := func() {
		t.Helper()
		s.Resign(term)
		term = s.Campaign(e)
	}

	// Disconnected, and connected again in the same session: while it watches the leader, and while it watches the path.
	proxy.Refuse()
	handOver()
	proxy.Heal()
	observer.Sees(term)
	s.Resign(term)
	s.waitForWatch("election")
	proxy.Refuse()
	term = s.Campaign(e)
	proxy.Heal()
	observer.Sees(term)
	require.Equal(t, session, client.SessionID())

	// In the next session the leader is the same: the observer yields no element.
	ender.expire()
	s.Eventually("a new session", func() bool { return client.SessionID() != session })
	s.waitForWatch("election")
	handOver()
	observer.Sees(term)

	// Disconnected until the session has expired and another candidate leads.
	session = client.SessionID()
	proxy.Refuse()
	ender.expire()
	handOver()
	proxy.Heal()
	observer.Sees(term)
	require.NotEqual(t, session, client.SessionID())

	// Partitioned, without notification.
	session = client.SessionID()
	proxy.Drop(docker.Both)
	s.expires(session)
	handOver()
	proxy.Heal()
	observer.Sees(term)
	require.NotEqual(t, session, client.SessionID())
	handOver()
	observer.Sees(term)
	s.Resign(term)
}
