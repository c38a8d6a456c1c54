// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"io"
	"log"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// noEvents ignores all events.
type noEvents struct{}

func (noEvents) Attached(int64, string)            {}
func (noEvents) Detached(int64, string)            {}
func (noEvents) Changed(Status)                    {}
func (noEvents) Outage(time.Duration, error)       {}
func (noEvents) OutageEnded(string, time.Duration) {}
func (noEvents) Heartbeat(time.Duration, error)    {}
func (noEvents) Proved(_, _ time.Duration)         {}
func (noEvents) Undeleted(*nodes.Node, error)      {}
func (noEvents) Stuck()                            {}

// openTestSession returns a session that its owner serves until the end of the test, and the
// network between it and its server.
func openTestSession(t *testing.T) (*Session, *zktest.Link) {
	t.Helper()
	server, err := zktest.Run(context.Background(), &zktest.Options{InMemory: true, Tick: wiretest.Timeout / 4})
	require.NoError(t, err)
	link := server.Link()
	s, err := Open(Config{
		Servers: server.Addrs(),
		Timeout: wiretest.Timeout,
		Dial:    link.Dial,
		Wrap:    func(op, path string, err error) error { return fmt.Errorf("%s %s: %w", op, path, err) },
		Events:  noEvents{},
		Revoked: func([]byte) error { return nil },
		Logger:  log.New(io.Discard, "", 0),
	})
	require.NoError(t, err)
	<-s.Opened()
	owned := make(chan struct{})
	go func() {
		defer close(owned)
		s.Run()
	}()
	t.Cleanup(func() {
		s.End(sentinel.ErrClosed)
		<-owned
		require.NoError(t, s.Close())
		require.NoError(t, server.Close())
	})
	return s, link
}

// contend creates the node of a contender in the session.
func contend(t *testing.T, s *Session, path string) *nodes.Node {
	t.Helper()
	n := nodes.NewNode("/", 0, path)
	s.Nodes.Register(n)
	n.Path = path
	_, err := s.conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	s.Joined(n)
	return n
}

// The state that a round reads may not yet include the change that woke the owner.
func TestOwnerThatIsAskedToWakeDuringRoundWakesAgain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _ := openTestSession(t)
		synctest.Wait()
		next := s.alarm.Next()
		require.Positive(t, time.Until(next))
		time.Sleep(time.Until(next) - time.Nanosecond)
		s.link.mu.Lock() // stops the owner in its next round
		time.Sleep(time.Nanosecond)
		for range 1000 {
			runtime.Gosched()
		}
		rung := len(s.alarm.Rings())
		s.WakeWithin(time.Second)
		rungAgain := len(s.alarm.Rings())
		s.link.mu.Unlock()
		require.Zero(t, rung)
		require.Equal(t, 1, rungAgain)
		synctest.Wait()
		require.False(t, s.alarm.Next().After(time.Now().Add(time.Second)))
	})
}

// A heartbeat in the ZooKeeper client's queue as the connection ends fails with the other
// requests in it.
func TestContendersWhoseHeartbeatWasNotSentWaitForTheNext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, link := openTestSession(t)
		n := contend(t, s, "/contender")
		time.Sleep(2 * wiretest.Timeout)

		wanted := &proofRequest{node: n, answered: make(chan struct{})}
		tries := 0
		_, err := CallAndWait(t.Context(), s, Ordinary, func(conn *zk.Conn) (struct{}, error) {
			if tries++; tries > 1 {
				return struct{}{}, nil
			}
			time.AfterFunc(wiretest.Timeout/4, link.Release)
			link.Hold(zktest.Both)
			link.Reset()
			synctest.Wait()
			s.schedule.mu.Lock()
			s.schedule.inFlight = 1
			s.schedule.mu.Unlock()
			s.sendHeartbeat(time.Now(), []*nodes.Node{n}, []*proofRequest{wanted})
			_, _, err := conn.Get("/")
			return struct{}{}, err
		})
		require.NoError(t, err)
		require.Equal(t, 2, tries, "the client failed it before it was sent")
		<-wanted.answered
		require.NoError(t, wanted.err)
	})
}
