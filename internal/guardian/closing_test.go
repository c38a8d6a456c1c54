// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guardian

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// closeRule calls before for each request to close a session.
func closeRule(before func()) zktest.Rule {
	return zktest.Rule{Op: "closeSession", Before: func(zktest.Request) { before() }}
}

// opened returns a session of the ensemble.
func opened(t *testing.T, w *world) *Session {
	t.Helper()
	s := &Session{Servers: w.Addrs(), Timeout: timeout}
	require.NoError(t, s.open(t.Context(), orTCP(nil), w.Addrs()[0]))
	require.NotZero(t, s.ID)
	return s
}

func TestSessionIsClosedThroughAnyServer(t *testing.T) {
	w := newWorld(t, 3)
	for _, server := range w.Addrs() {
		s := opened(t, w)
		s.Servers = []string{server}
		require.NoError(t, s.close(t.Context(), orTCP(nil)))
		w.awaitClosed(s.ID)
	}
}

func TestAttachmentAndCloseAreOneWrite(t *testing.T) {
	w := newWorld(t, 1)
	s := opened(t, w)
	writes := &counter{}
	require.NoError(t, s.close(t.Context(), writes.dial))
	require.Equal(t, 1, writes.n)
}

// A counter counts the writes to its connections.
type counter struct{ n int }

func (c *counter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := orTCP(nil)(ctx, network, address)
	return counted{conn, c}, err
}

type counted struct {
	net.Conn
	counter *counter
}

func (c counted) Write(p []byte) (int, error) {
	c.counter.n++
	return c.Conn.Write(p)
}

func TestSessionOfHungServerIsClosedThroughAnother(t *testing.T) {
	w := newWorld(t, 3)
	s := opened(t, w)
	followers, err := w.Followers(t.Context())
	require.NoError(t, err)
	followers[0].Hang(true)
	s.Servers = []string{followers[0].Addr(), followers[1].Addr()}
	require.NoError(t, s.close(t.Context(), orTCP(nil)))
	w.awaitClosed(s.ID)
}

func TestServerThatAnswersLateClosesTheSession(t *testing.T) {
	w := newWorld(t, 1)
	s := opened(t, w)
	server := w.Server(1)
	server.Hang(true)
	closed := make(chan error, 1)
	go func() { closed <- s.close(t.Context(), orTCP(nil)) }()
	time.AfterFunc(s.Timeout/100, func() { server.Hang(false) }) // after the pause before other attempts
	require.NoError(t, <-closed)
}

func TestCloseThatServerRefusesIsNotRepeated(t *testing.T) {
	w := &world{t: t}
	w.Ensemble = zktest.Start(t, &zktest.Options{Tick: 2 * time.Second, RequireSASL: true, Users: map[string]string{"a": "b"}})
	s := opened(t, w)
	require.ErrorIs(t, closeOnce(t, w, s), errRefused)
	require.Len(t, w.Sessions(), 1)
	require.ErrorIs(t, Rehearse(t.Context(), orTCP(nil), w.Addrs(), timeout), errRefused)
}

func TestSessionThatHasEndedIsNotTriedAgain(t *testing.T) {
	w := newWorld(t, 1)
	s := opened(t, w)
	require.NoError(t, w.Expire(t.Context(), s.ID))
	require.ErrorIs(t, closeOnce(t, w, s), errGone)
}

// closeOnce closes the session, and requires that there is one attempt.
func closeOnce(t *testing.T, w *world, s *Session) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	second := w.Intercept(zktest.Rule{Op: "connect", Skip: 1, Before: func(zktest.Request) { cancel() }})
	err := s.close(ctx, orTCP(nil))
	require.Zero(t, second.Fired())
	return err
}

func TestServersThatReplaceSessionsFailTheRehearsal(t *testing.T) {
	w := &world{t: t}
	w.Ensemble = zktest.Start(t, &zktest.Options{Tick: 2 * time.Second, Personality: zktest.Keeper})
	require.ErrorIs(t, Rehearse(t.Context(), orTCP(nil), w.Addrs(), timeout), errReplaced)
	require.Eventually(t, func() bool { return len(w.Sessions()) == 1 }, time.Minute, time.Millisecond, "only the first one lives")
}

func TestRehearsalLeavesNoSession(t *testing.T) {
	for _, servers := range []int{1, 3} {
		w := newWorld(t, servers)
		for _, follower := range w.Servers()[1:] {
			follower.Lag(timeout / 100) // others would be tried before it answers
		}
		require.NoError(t, Rehearse(t.Context(), orTCP(nil), w.Addrs(), timeout))
		require.Empty(t, w.Sessions())
	}
}

func TestSlowServerDoesNotFailTheRehearsal(t *testing.T) {
	const timeout = 4 * time.Second
	for _, op := range []string{"connect", "closeSession"} {
		w := newWorld(t, 1)
		slow := w.Intercept(zktest.Rule{Op: op, Delay: timeout / 6, Times: 1}) // its effect is immediate
		require.NoError(t, Rehearse(t.Context(), orTCP(nil), w.Addrs(), timeout), op)
		require.Equal(t, 1, slow.Fired())
	}
}

func TestAttemptsEndWithTheirTime(t *testing.T) {
	faketime.Test(t, func(t *testing.T) { // the first attempt has failed by then
		e := zktest.Start(t, &zktest.Options{InMemory: true, Tick: 2 * time.Second})
		s := &Session{Servers: e.Addrs(), Timeout: timeout}
		require.NoError(t, s.open(t.Context(), e.Dial, e.Addrs()[0]))
		e.Server(1).Refuse(true)
		ctx, cancel := context.WithTimeout(t.Context(), s.Timeout/50)
		defer cancel()
		err := s.close(ctx, e.Dial)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, e.Addrs()[0])
	})
}

func TestSilentServiceIsNoZooKeeper(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
			_ = conn.Close()
		}
	}()
	err = Rehearse(t.Context(), orTCP(nil), []string{l.Addr().String()}, timeout)
	require.ErrorContains(t, err, `not a ZooKeeper server: its answer begins with "HTTP"`)
	require.NoError(t, l.Close())
}
