// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// testTimeout is the session timeout T of these tests.
const testTimeout = wiretest.Timeout

// another is the node of a contender that this library did not create, at the front of a queue.
const another = "/l/another-lock-0000000000"

var errUnreachable = errors.New("no route to host")

// An ensemble is three servers that record the requests that they receive. The clients of a
// test share one network, its link.
type ensemble struct {
	*zktest.Ensemble
	t           *testing.T
	link        *zktest.Link
	dials       atomic.Int64
	unreachable atomic.Bool // dials fail

	mu       sync.Mutex // guards received
	received []request
}

// A request is a request that a server received.
type request struct {
	zktest.Request
	at time.Time
}

func newEnsemble(t *testing.T) *ensemble {
	t.Helper()
	return startEnsemble(t, zktest.Options{Servers: 3, InMemory: true})
}

// newOccupied returns an ensemble where another library's contender holds the queue /l.
func newOccupied(t *testing.T) *ensemble {
	t.Helper()
	s := newEnsemble(t)
	s.create("/l", string(protocol.ParentData(0)))
	s.create(another, "")
	return s
}

// newHeld returns an ensemble where a client holds the queue /l.
func newHeld(t *testing.T) (s *ensemble, client *recipes.Client, queue *Queue, claim *recipes.Claim) {
	t.Helper()
	s = newEnsemble(t)
	client = s.connect(s.options())
	queue = newQueue(t, client, nil)
	claim, err := queue.Claim(t.Context())
	require.NoError(t, err)
	return s, client, queue, claim
}

func startEnsemble(t *testing.T, opts zktest.Options) *ensemble {
	t.Helper()
	if opts.Tick == 0 {
		opts.Tick = testTimeout / 4
	}
	servers, err := zktest.Run(context.Background(), &opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, servers.Close()) })
	s := &ensemble{Ensemble: servers, t: t, link: servers.Link()}
	s.Intercept(zktest.Rule{When: func(r zktest.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.received = append(s.received, request{r, time.Now()})
		return false
	}})
	return s
}

// options returns the options of a client that connects over the link.
func (s *ensemble) options() *recipes.Options {
	return &recipes.Options{SessionTimeout: testTimeout, Dial: s.dial, Logger: slog.New(slog.DiscardHandler)}
}

func withDial(opts *recipes.Options, dial func(ctx context.Context, network, address string) (net.Conn, error)) *recipes.Options {
	opts.Dial = dial
	return opts
}

// connect returns a client that ends with the test.
func (s *ensemble) connect(opts *recipes.Options) *recipes.Client {
	s.t.Helper()
	client, err := recipes.Connect(s.t.Context(), s.Addrs(), opts)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { client.Close() })
	return client
}

// newest returns the newest session of a client, which may be over.
func newest(c *recipes.Client) *client.Session { return client.Of(c).Newest() }

func held(c *recipes.Claim) *claim.Claim { return claim.Of(c) }

// memberOf returns what the name of a claim's node says.
func memberOf(c *recipes.Claim) protocol.Member {
	m, _ := protocol.ParseMember(path.Base(c.Path()))
	return m
}

func engineOf(c *recipes.Client) *client.Client { return client.Of(c) }

func (s *ensemble) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.dials.Add(1)
	if s.unreachable.Load() {
		return nil, errUnreachable
	}
	return s.link.Dial(ctx, network, address)
}

// partition delays all packets in both directions until heal.
func (s *ensemble) partition() { s.link.Hold(zktest.Both) }

func (s *ensemble) heal() { s.link.Release() }

// detach ends all connections, and lets none begin until heal.
func (s *ensemble) detach() {
	s.partition()
	s.link.Reset()
}

// refuse ends all connections, and makes dials fail for that time.
func (s *ensemble) refuse(d time.Duration) {
	s.unreachable.Store(true)
	s.link.Reset()
	time.AfterFunc(d, func() { s.unreachable.Store(false) })
}

// stop stops all servers. They keep their data and the sessions until start.
func (s *ensemble) stop() {
	s.t.Helper()
	for _, server := range s.Servers() {
		require.NoError(s.t, server.Kill(context.Background()))
	}
}

func (s *ensemble) start() {
	s.t.Helper()
	for _, server := range s.Servers() {
		require.NoError(s.t, server.Start(context.Background()))
	}
}

// expire ends a session as the leader does.
func (s *ensemble) expire(session int64) {
	s.t.Helper()
	require.NoError(s.t, s.Expire(context.Background(), session))
}

// answerExpired answers the request that the rule selects as in a session that has expired,
// although its connection continues, as a lagging follower's does. The session expires
// a second later.
func (s *ensemble) answerExpired(session int64, r zktest.Rule) {
	r.Session, r.Fail, r.Times = session, zktest.ErrSessionExpired, 1
	r.Before = func(zktest.Request) {
		time.AfterFunc(time.Second, func() { _ = s.Expire(context.Background(), session) })
	}
	s.Intercept(r)
}

// create creates a persistent node, and returns its czxid.
func (s *ensemble) create(path, data string) int64 {
	s.t.Helper()
	require.NoError(s.t, s.Create(path, []byte(data)))
	return s.czxid(path)
}

func (s *ensemble) set(path, data string) {
	s.t.Helper()
	require.NoError(s.t, s.Set(path, []byte(data)))
}

func (s *ensemble) delete(path string) {
	s.t.Helper()
	require.NoError(s.t, s.Delete(path))
}

// recreate deletes the parent with everything below it, as an operator does, and creates it
// again, with the number of its next child.
func (s *ensemble) recreate(data string, number int32) {
	s.t.Helper()
	for _, path := range s.queue() {
		s.delete(path)
	}
	s.delete("/l")
	s.create("/l", data)
	require.NoError(s.t, s.SetCounter("/l", number))
}

// queue returns the paths of the contenders below /l.
func (s *ensemble) queue() []string {
	s.t.Helper()
	names, err := s.Children("/l")
	if errors.Is(err, zktest.ErrNoNode) {
		return nil
	}
	require.NoError(s.t, err)
	for i := range names {
		names[i] = "/l/" + names[i]
	}
	return names
}

func (s *ensemble) czxid(path string) int64 {
	s.t.Helper()
	_, stat, err := s.Get(path)
	require.NoError(s.t, err)
	return stat.Czxid
}

func (s *ensemble) data(path string) string {
	s.t.Helper()
	data, _, err := s.Get(path)
	require.NoError(s.t, err)
	return string(data)
}

// seen returns the received requests for which want returns true.
func (s *ensemble) seen(want func(zktest.Request) bool) (picked []request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.received {
		if want(r.Request) {
			picked = append(picked, r)
		}
	}
	return picked
}

// heartbeats returns the received heartbeats.
func (s *ensemble) heartbeats() []request { return s.seen(isHeartbeat) }

// isHeartbeat reports whether a request is a transaction that only checks.
func isHeartbeat(r zktest.Request) bool {
	return r.Op == "multi" && !slices.ContainsFunc(r.Ops, func(op zktest.Request) bool { return op.Op != "check" })
}

// isCommit reports whether a request is a transaction that changes something.
func isCommit(r zktest.Request) bool { return r.Op == "multi" && !isHeartbeat(r) }

// isJoin reports whether a request creates the node of a contender.
func isJoin(r zktest.Request) bool {
	return slices.ContainsFunc(append(r.Ops, r), func(op zktest.Request) bool {
		return op.Op == "create" && strings.HasSuffix(op.Path, "-lock-")
	})
}

// isOp returns a function that reports whether a request is one of those operations.
func isOp(ops ...string) func(zktest.Request) bool {
	return func(r zktest.Request) bool { return slices.Contains(ops, r.Op) }
}

func anyRequest(zktest.Request) bool { return true }
