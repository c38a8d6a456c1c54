// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const registered = "/brokers/ids/7"

func (s servers) register(client *recipes.Client, data string) *registration.Registration {
	s.Helper()
	r, err := registration.Register(s.Context(), client, registered, []byte(data), nil)
	require.NoError(s, err)
	return r
}

func (s servers) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	s.Cleanup(cancel)
	return ctx
}

// requireNode requires that the node has that data and belongs to the client's session.
func (s servers) requireNode(client *recipes.Client, data string) {
	s.Helper()
	found, stat, err := s.Get(registered)
	require.NoError(s, err)
	require.Equal(s, data, string(found))
	require.Equal(s, client.SessionID(), stat.EphemeralOwner)
}

func (s servers) requireNoNode() {
	s.Helper()
	_, _, err := s.Get(registered)
	require.Error(s, err)
}

// awaitState waits for a state.
func (s servers) awaitState(r *registration.Registration, is func(recipes.RegistrationState) bool) recipes.RegistrationState {
	s.Helper()
	for state := range r.States(s.within(time.Minute)) {
		if is(state) {
			return state
		}
	}
	require.Fail(s, "no such state", "%v", r.State())
	return recipes.RegistrationState{}
}

func isRegistered(state recipes.RegistrationState) bool { return state.Registered }

func TestRegistrationIsMadeAgainInEachSessionUntilUnregister(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		r := s.register(client, "one")
		s.requireNode(client, "one")
		require.True(s, r.State().Registered)
		for range 3 {
			was := r.State()
			s.must(s.Expire(s.Context(), client.SessionID()))
			lost := s.awaitState(r, func(state recipes.RegistrationState) bool { return !state.Registered })
			require.ErrorIs(s, lost.Cause, recipes.ErrSessionExpired)
			state := s.awaitState(r, isRegistered)
			require.NotEqual(s, was.Session, state.Session)
			require.NoError(s, state.Cause)
			s.requireNode(client, "one")
		}
		s.must(r.Unregister(s.Context()))
		s.requireNoNode()
		require.ErrorIs(s, r.Err(), recipes.ErrReleased)
		<-r.Done()
		require.False(s, r.State().Registered)
		s.must(r.Unregister(s.Context()))
		require.Zero(s, client.OutstandingNodes())
		require.ErrorIs(s, r.Update(s.Context(), nil), recipes.ErrReleased)
		s.must(s.Expire(s.Context(), client.SessionID()))
		time.Sleep(2 * nodeTimeout)
		s.requireNoNode()
	})
}

func TestPathOfAnotherSessionIsWaitedFor(t *testing.T) {
	withServers(t, func(s servers) {
		a, _ := s.connect()
		b, _ := s.connect()
		first := s.register(a, "a")
		_, err := registration.Register(s.within(3*nodeTimeout), b, registered, []byte("b"), nil)
		require.ErrorIs(s, err, recipes.ErrTaken)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		var taken *recipes.TakenError
		require.ErrorAs(s, err, &taken)
		require.Equal(s, a.SessionID(), taken.Session)
		require.Equal(s, "a", string(taken.Data))
		require.ErrorContains(s, err, "register "+registered)
		require.Zero(s, b.OutstandingNodes())
		s.requireNode(a, "a")

		second := make(chan *registration.Registration)
		go func() { second <- s.register(b, "b") }()
		time.Sleep(nodeTimeout)
		s.requireNode(a, "a")
		s.must(first.Unregister(s.Context()))
		r := <-second
		s.requireNode(b, "b")
		s.must(r.Unregister(s.Context()))
	})
}

func TestRegistrationThatLostItsPathWaitsUntilItIsFree(t *testing.T) {
	withServers(t, func(s servers) {
		a, link := s.connect()
		b, _ := s.connect()
		first := s.register(a, "a")
		waiting := make(chan *registration.Registration)
		go func() { waiting <- s.register(b, "b") }()
		synctest.Wait()
		link.Refuse(true)
		link.Reset()
		second := <-waiting // the session of a has expired
		s.requireNode(b, "b")
		require.False(s, first.State().Registered)
		link.Refuse(false)
		state := s.awaitState(first, func(state recipes.RegistrationState) bool { return errors.Is(state.Cause, recipes.ErrTaken) })
		require.False(s, state.Registered)
		s.requireNode(b, "b")
		s.must(second.Unregister(s.Context()))
		s.awaitState(first, isRegistered)
		s.requireNode(a, "a")
	})
}

func TestFormerNodeOfTheClientIsWaitedOut(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		r := s.register(client, "a")
		former := client.SessionID()
		_, before, err := s.Get(registered)
		s.must(err)
		// The ensemble is down until the client abandons the session, and then gives it a full T.
		server := s.Servers()[0]
		s.must(server.Kill(s.Context()))
		time.Sleep(3 * nodeTimeout)
		require.False(s, r.State().Registered)
		link.Refuse(true) // so that the client does not close it either
		s.must(server.Start(s.Context()))
		time.Sleep(nodeTimeout / 4)
		link.Refuse(false)
		for client.SessionID() == former {
			time.Sleep(time.Millisecond)
		}
		if _, stat, err := s.Get(registered); err == nil {
			require.Equal(s, before.Czxid, stat.Czxid)
		}
		state := s.awaitState(r, isRegistered)
		require.NotEqual(s, former, state.Session)
		s.requireNode(client, "a")
		s.must(r.Unregister(s.Context()))
	})
}

func TestUpdateReplacesTheDataAndSurvivesTheSession(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		r := s.register(client, "one")
		s.must(r.Update(s.Context(), []byte("two")))
		s.requireNode(client, "two")
		s.must(s.Expire(s.Context(), client.SessionID()))
		s.must(r.Update(s.Context(), []byte("three")))
		s.requireNode(client, "three")

		link.Refuse(true)
		link.Reset()
		err := r.Update(s.within(nodeTimeout/8), []byte("four"))
		require.ErrorIs(s, err, recipes.ErrUncertain)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		link.Refuse(false)
		s.must(r.Update(s.Context(), []byte("five")))
		s.requireNode(client, "five")
		s.must(r.Unregister(s.Context()))
	})
}

func TestNodeAndDataAreRestoredAfterAnOperatorChangedThem(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		r := s.register(client, "mine")
		s.must(s.Set(registered, []byte("theirs")))
		time.Sleep(nodeTimeout / 4)
		s.requireNode(client, "mine")
		s.must(s.Delete(registered))
		time.Sleep(nodeTimeout / 4)
		s.requireNode(client, "mine")
		require.True(s, r.State().Registered)
		s.must(r.Unregister(s.Context()))
	})
}

func TestNodeThatIsOverwrittenContinuouslyIsRestoredAtABoundedRate(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		r := s.register(client, "mine")
		const writes = 1000
		_, before, err := s.Get(registered)
		s.must(err)
		for range writes {
			s.must(s.Set(registered, []byte("theirs")))
			time.Sleep(nodeTimeout / writes)
		}
		_, after, err := s.Get(registered)
		s.must(err)
		require.LessOrEqual(s, after.Version-before.Version, int32(writes+60))
		time.Sleep(nodeTimeout / 4)
		s.requireNode(client, "mine")
		s.must(r.Unregister(s.Context()))
	})
}

func TestRegistrationIsNotCertainWithoutAServer(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		r := s.register(client, "a")
		link.Refuse(true)
		link.Reset()
		began := time.Now()
		state := s.awaitState(r, func(state recipes.RegistrationState) bool { return !state.Registered })
		require.Equal(s, nodeTimeout/4, time.Since(began).Truncate(nodeTimeout/16))
		require.Error(s, state.Cause)
		s.requireNode(client, "a") // it was notified first
		link.Refuse(false)
		again := s.awaitState(r, isRegistered)
		require.Equal(s, state.Session, again.Session, "the session lives")
		s.must(r.Unregister(s.Context()))
	})
}

func TestRegistrationEndsWithItsClient(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		r := s.register(client, "a")
		client.Close()
		<-r.Done()
		require.ErrorIs(s, r.Err(), recipes.ErrClosed)
		require.ErrorIs(s, r.Update(s.Context(), nil), recipes.ErrClosed)
		require.ErrorIs(s, r.Unregister(s.Context()), recipes.ErrClosed)
		_, err := registration.Register(s.Context(), client, registered, nil, nil)
		require.ErrorIs(s, err, recipes.ErrClosed)
		synctest.Wait()
		s.requireNoNode()
	})
}

func TestClientRegistersAPathOnceAtATime(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		r := s.register(client, "a")
		_, err := registration.Register(s.Context(), client, registered, nil, nil)
		require.ErrorContains(s, err, registered+": this client has already registered the path")
		s.requireNode(client, "a")

		// The next registration does not begin while the deletion of the last one may come.
		link.Refuse(true)
		link.Reset()
		synctest.Wait()
		require.ErrorIs(s, r.Unregister(s.Context()), recipes.ErrUncertain)
		_, err = registration.Register(s.within(nodeTimeout/8), client, registered, []byte("b"), nil)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		link.Refuse(false)
		r = s.register(client, "b")
		time.Sleep(2 * nodeTimeout)
		s.requireNode(client, "b")
		s.must(r.Unregister(s.Context()))
	})
}

func TestCancelledRegisterLeavesNoNode(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		for d := time.Duration(0); d < 20*time.Millisecond; d += time.Millisecond / 2 {
			r, err := registration.Register(s.within(d), client, registered, nil, nil)
			if err == nil {
				s.must(r.Unregister(s.Context()))
				continue
			}
			require.ErrorIs(s, err, context.DeadlineExceeded)
			require.Zero(s, client.OutstandingNodes())
			s.requireNoNode()
		}
	})
}

func TestCreateThatWasNotAnsweredNeverDeletesAnotherSessionsNode(t *testing.T) {
	withServers(t, func(s servers) {
		a, _ := s.connect()
		b, link := s.connect()
		holder := s.register(a, "a")
		// The refusal is lost: b cannot know whether it has created the node.
		for n := 1; n < 12; n++ {
			trap := link.LoseReply(n)
			_, err := registration.Register(s.within(nodeTimeout/64*time.Duration(n)), b, registered, []byte("b"), nil)
			require.Error(s, err)
			time.Sleep(2 * nodeTimeout)
			s.requireNode(a, "a")
			require.Zero(s, b.OutstandingNodes())
			_ = trap.Sprung()
		}
		require.True(s, holder.State().Registered)
		s.must(holder.Unregister(s.Context()))
	})
}

func TestRefusedRegistrationIsAnErrorImmediately(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		s.must(s.Create(registered, nil))
		_, err := registration.Register(s.Context(), client, registered, nil, nil)
		require.ErrorContains(s, err, registered+": the path has a node that is not ephemeral")
		_, err = client.Conn().SetACL("/brokers/ids", zk.WorldACL(zk.PermRead), -1)
		s.must(err)
		_, err = registration.Register(s.Context(), client, "/brokers/ids/8", nil, nil)
		require.ErrorIs(s, err, zk.ErrNoAuth)
		require.Zero(s, client.OutstandingNodes())
	})
}

func TestInvalidRegistrationIsAnErrorThatNamesIt(t *testing.T) {
	withServers(t, func(s servers) {
		client, _ := s.connect()
		big := make([]byte, registration.MaxData+1)
		for _, c := range []struct {
			ctx    context.Context
			client *recipes.Client
			path   string
			data   []byte
			opts   *registration.Options
			want   string
		}{
			{s.Context(), nil, registered, nil, nil, "client is nil"},
			{nil, client, registered, nil, nil, "context is nil"},
			{s.Context(), client, "", nil, nil, `path "" is empty`},
			{s.Context(), client, "/", nil, nil, "is the root"},
			{s.Context(), client, "x", nil, nil, "is not absolute"},
			{s.Context(), client, "/a//b", nil, nil, "empty segment"},
			{s.Context(), client, registered, big, nil, "data of 65537 bytes is over the limit of 65536"},
			{s.Context(), client, registered, nil, &registration.Options{ReleaseTimeout: -1}, "is negative"},
		} {
			_, err := registration.Register(c.ctx, c.client, c.path, c.data, c.opts)
			require.ErrorContains(s, err, c.want)
			require.True(s, strings.HasPrefix(err.Error(), "register"), err)
		}
		s.requireNoNode()
		r := s.register(client, "a")
		require.ErrorContains(s, r.Update(s.Context(), big), "update "+registered+": data of 65537 bytes")
		require.ErrorContains(s, r.Update(nil, nil), "context is nil") //nolint:staticcheck // that is the test
		require.ErrorContains(s, r.Unregister(nil), "context is nil")  //nolint:staticcheck // that is the test
		require.ErrorIs(s, r.Update(s.within(0), nil), context.DeadlineExceeded)
		time.Sleep(nodeTimeout)
		s.requireNode(client, "a")
		s.must(r.Unregister(s.within(0)))
		s.requireNoNode()
	})
}
