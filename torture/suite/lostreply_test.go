// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"

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

// isDelete says that a request deletes a node.
func isDelete(frame []byte) bool {
	return len(frame) >= 8 && binary.BigEndian.Uint32(frame[4:]) == opDelete
}

// A gate lets a client make new connections, or none.
type gate struct {
	mu   sync.Mutex    // guards open
	open chan struct{} // closed while connections may be made
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

// dial is for recipes.Options.
func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
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
	// The client comes back to any of the servers, which may not have seen yet what
	// another one carried out.
	cast := func(t *testing.T, opts recipes.Options) (s *env, client *recipes.Client, lose func(then ...func()) (lost <-chan struct{})) {
		t.Helper()
		s = onThree(t)
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
					case <-s.ctx.Done():
					}
				}()
			}
			return lost
		}
	}

	t.Run("on a free lock", func(t *testing.T) {
		t.Parallel()
		s, client, lose := cast(t, recipes.Options{})
		mu := s.mutex(client, "lock")
		for range 5 {
			lost := lose()
			hold := s.lock(mu)
			await(s, lost)
			require.Len(t, s.nodes("lock"), 1)
			require.True(t, strings.HasSuffix(hold.Path(), s.nodes("lock")[0]))
			require.EqualValues(t, s.stat(hold.Path()).Czxid, hold.Token())
			s.unlock(hold)
		}
	})

	t.Run("on a held lock", func(t *testing.T) {
		t.Parallel()
		s, client, lose := cast(t, recipes.Options{})
		mu := s.mutex(client, "lock")
		hold := s.lock(s.mutex(s.connect(recipes.Options{}), "lock"))
		lost := lose()
		next := s.locking(s.ctx, mu)
		await(s, lost)
		s.waiting("lock", 2)
		// No contender waits behind a second node of its own.
		s.unlock(hold)
		s.unlock(next.granted())
	})

	t.Run("with a Lock that is cancelled in that moment", func(t *testing.T) {
		t.Parallel()
		s, client, lose := cast(t, recipes.Options{})
		mu := s.mutex(client, "lock")
		for range 5 {
			lost := lose()
			ctx, cancel := context.WithCancel(s.ctx)
			locking := s.locking(ctx, mu)
			await(s, lost)
			cancel()
			if hold, err := locking.result(); err == nil {
				s.unlock(hold) // found before the cancellation
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			s.eventually("no node", func() bool { return len(s.nodes("lock")) == 0 && client.OutstandingNodes() == 0 })
		}
	})

	t.Run("with a Lock that is cancelled while no server can be reached", func(t *testing.T) {
		t.Parallel()
		reachable := newGate()
		s, client, lose := cast(t, recipes.Options{Dial: reachable.dial})
		mu := s.mutex(client, "lock")
		// Not before the join: on a busy machine the client may have to find another server for it.
		lost := lose(reachable.shut)
		ctx, cancel := context.WithCancel(s.ctx)
		locking := s.locking(ctx, mu)
		await(s, lost)
		cancel()
		_, err := locking.result()
		require.ErrorIs(t, err, context.Canceled)
		s.waiting("lock", 1) // noLeader can have taken it away yet
		require.Equal(t, 1, client.OutstandingNodes())
		session := client.SessionID()
		reachable.pass()
		s.eventually("no node", func() bool { return len(s.nodes("lock")) == 0 && client.OutstandingNodes() == 0 })
		require.Equal(t, session, client.SessionID(), "taken away, and not expired")
	})
}

// A release is not answered, and tried again. In between the parent was removed
// and made again, where its numbers begin anew: the holder there must not pay.
func TestLateDeleteSparesARecreatedParent(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	reachable := newGate()
	proxy := s.proxy(s.ensemble.Servers()[0])
	client := s.connect(recipes.Options{Dial: reachable.dial}, proxy.Addr())
	hold := s.lock(s.mutex(client, "lock"))
	number := hold.Path()[len(hold.Path())-10:]

	lost := proxy.LoseReply(func(frame []byte) bool {
		if !isDelete(frame) {
			return false
		}
		reachable.shut() // not before: on a busy machine the client may have to connect again for it
		return true
	})
	unlocked := make(chan error, 1)
	go func() { unlocked <- hold.Unlock(s.ctx) }()
	await(s, lost)
	s.waiting("lock", 0)
	err := s.zk.Delete(s.path("lock"), -1)
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNoNode) // the server was quicker to remove the container
	}
	other := s.lock(s.mutex(s.connect(recipes.Options{}), "lock"))
	require.Equal(t, number, other.Path()[len(other.Path())-10:], "numbers should have begun anew")

	reachable.pass()
	require.NoError(t, await(s, unlocked))
	s.eventually("nothing owed", func() bool { return client.OutstandingNodes() == 0 })
	require.NoError(t, other.Check(s.ctx))
	require.NoError(t, other.Err())
	s.unlock(other)
}

func TestLostReplyOfDeleteIsNoError(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	proxy := s.proxy(s.ensemble.Servers()[0])
	mu := s.mutex(s.connect(recipes.Options{}, proxy.Addr()), "lock")
	for range 3 {
		hold := s.lock(mu)
		lost := proxy.LoseReply(isDelete)
		require.NoError(t, hold.Unlock(s.ctx), "it was held until then, and is free")
		await(s, lost)
		require.Empty(t, s.nodes("lock"))
	}
}
