// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Numbers of ZooKeeper's operations.
const (
	opCreate = 1
	opDelete = 2
	opCheck  = 13
	opMulti  = 14
)

// isJoin reports whether a request is a transaction that begins with a create, or
// with a create behind a check of another contender.
func isJoin(frame []byte) bool {
	const header = 9 // operation, whether it is the last, error
	if len(frame) < 8+header || binary.BigEndian.Uint32(frame[4:]) != opMulti {
		return false
	}
	op, rest := binary.BigEndian.Uint32(frame[8:]), frame[8+header:]
	if op == opCheck && len(rest) >= 4 {
		if end := 4 + int(binary.BigEndian.Uint32(rest)) + 4; len(rest) >= end+header {
			op = binary.BigEndian.Uint32(rest[end:])
		}
	}
	return op == opCreate
}

// isDelete reports whether a request deletes a node.
func isDelete(frame []byte) bool {
	return len(frame) >= 8 && binary.BigEndian.Uint32(frame[4:]) == opDelete
}

// unhurried is the session timeout of a client that waits for a reply that is to be lost: with a short one, it would end the
// connection before a busy server replies.
const unhurried = 30 * time.Second

// A dialSwitch allows a client to open new connections, or blocks its dials.
type dialSwitch struct {
	mu   sync.Mutex    // guards open
	open chan struct{} // closed while dials are allowed
}

// newDialSwitch returns a dialSwitch that allows dials.
func newDialSwitch() *dialSwitch {
	g := &dialSwitch{open: make(chan struct{})}
	close(g.open)
	return g
}

// block blocks dials until allow.
func (g *dialSwitch) block() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// allow ends block.
func (g *dialSwitch) allow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

// dial implements recipes.Options.Dial.
func (g *dialSwitch) dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return new(net.Dialer).DialContext(ctx, network, address)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestLostReplyOfCreateLeavesOneNode(t *testing.T) {
	t.Parallel()
	// The client reconnects to any of the servers, which may lag behind the one that carried out the create.
	setUp := func(t *testing.T, opts recipes.Options) (s *env, client *recipes.Client, lose func(then ...func()) (lost <-chan struct{})) {
		t.Helper()
		s = onThree(t)
		opts.SessionTimeout = unhurried
		client, proxies := s.behindProxies(opts)
		return s, client, func(then ...func()) <-chan struct{} {
			lost := make(chan struct{}, len(proxies))
			for _, p := range proxies {
				happened := p.LoseReply(func(frame []byte) bool {
					if !isJoin(frame) {
						return false
					}
					for _, f := range then {
						f()
					}
					return true
				})
				go func() {
					select {
					case <-happened:
						lost <- struct{}{}
					case <-s.Ctx.Done():
					}
				}()
			}
			return lost
		}
	}

	t.Run("on a free lock", func(t *testing.T) {
		t.Parallel()
		s, client, lose := setUp(t, recipes.Options{})
		mu := s.Mutex(client, "lock")
		for range 5 {
			lost := lose()
			hold := s.Lock(mu)
			await(s, lost)
			require.Len(t, s.Nodes("lock"), 1)
			require.True(t, strings.HasSuffix(hold.Path(), s.Nodes("lock")[0]))
			require.EqualValues(t, s.Stat(hold.Path()).Czxid, hold.Token())
			s.Unlock(hold)
		}
	})

	t.Run("on a held lock", func(t *testing.T) {
		t.Parallel()
		s, client, lose := setUp(t, recipes.Options{})
		mu := s.Mutex(client, "lock")
		hold := s.Lock(s.Mutex(s.Connect(recipes.Options{}), "lock"))
		lost := lose()
		next := s.Locking(s.Ctx, mu)
		await(s, lost)
		s.Waiting("lock", 2)
		// The contender does not wait behind its own second node.
		s.Unlock(hold)
		s.Unlock(next.Granted())
	})

	t.Run("with a Lock that is cancelled at the same time", func(t *testing.T) {
		t.Parallel()
		s, client, lose := setUp(t, recipes.Options{})
		mu := s.Mutex(client, "lock")
		for range 5 {
			lost := lose()
			ctx, cancel := context.WithCancel(s.Ctx)
			locking := s.Locking(ctx, mu)
			await(s, lost)
			cancel()
			if hold, err := locking.Result(); err == nil {
				s.Unlock(hold) // found before the cancellation
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			s.Eventually("no node", func() bool { return len(s.Nodes("lock")) == 0 && client.OutstandingNodes() == 0 })
		}
	})

	t.Run("with a Lock that is cancelled while no server can be reached", func(t *testing.T) {
		t.Parallel()
		reachable := newDialSwitch()
		s, client, lose := setUp(t, recipes.Options{Dial: reachable.dial})
		mu := s.Mutex(client, "lock")
		// Block only after the join: on a busy machine the client may have to reconnect before it.
		lost := lose(reachable.block)
		ctx, cancel := context.WithCancel(s.Ctx)
		locking := s.Locking(ctx, mu)
		await(s, lost)
		cancel()
		_, err := locking.Result()
		require.ErrorIs(t, err, context.Canceled)
		s.Waiting("lock", 1) // without a connection the client cannot delete its node
		require.Equal(t, 1, client.OutstandingNodes())
		session := client.SessionID()
		reachable.allow()
		s.Eventually("no node", func() bool { return len(s.Nodes("lock")) == 0 && client.OutstandingNodes() == 0 })
		require.Equal(t, session, client.SessionID(), "the node was deleted, and the session has not expired")
	})
}

// A release is not answered, and retried. Meanwhile the parent was deleted and created again, so its sequence numbers restart:
// the retry must not delete the node of a new holder.
func TestLateDeleteSparesARecreatedParent(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	reachable := newDialSwitch()
	proxy := s.proxy(s.ensemble.Servers()[0])
	client := s.Connect(recipes.Options{SessionTimeout: unhurried, Dial: reachable.dial}, proxy.Addr())
	hold := s.Lock(s.Mutex(client, "lock"))
	number := hold.Path()[len(hold.Path())-10:]

	lost := proxy.LoseReply(func(frame []byte) bool {
		if !isDelete(frame) {
			return false
		}
		reachable.block() // only now: on a busy machine the client may have to reconnect before the delete
		return true
	})
	unlocked := make(chan error, 1)
	go func() { unlocked <- hold.Unlock(s.Ctx) }()
	await(s, lost)
	s.Waiting("lock", 0)
	err := s.ZK.Delete(s.Path("lock"), -1)
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNoNode) // the server has reaped the container already
	}
	other := s.Lock(s.Mutex(s.Connect(recipes.Options{}), "lock"))
	require.Equal(t, number, other.Path()[len(other.Path())-10:], "the sequence numbers should have restarted")

	reachable.allow()
	require.NoError(t, await(s, unlocked))
	s.Eventually("no outstanding node", func() bool { return client.OutstandingNodes() == 0 })
	require.NoError(t, other.Check(s.Ctx))
	require.NoError(t, other.Err())
	s.Unlock(other)
}
