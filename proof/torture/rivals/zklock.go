// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// zkLock is the lock of the ZooKeeper client itself.
//
// The lock does not notify its holder of a loss: its documentation mentions no such means. There are only the connection's
// events, of which StateExpired reports that the ephemeral nodes are gone (https://pkg.go.dev/github.com/go-zookeeper/zk#State).
// A more cautious user treats StateDisconnected as a loss, as Curator advises for SUSPENDED
// (https://curator.apache.org/docs/errors): that is a separate rival.
//
// Lock has no context, and only the end of the session removes the node that a failed Lock may have left, so the client then
// ends the session. The lock reports neither the czxid nor the path of the node, so there is no token. The adapter reads the
// path from the lock by reflection, because the checker excuses holders whose node an operator deleted.
type zkLock struct{ cautious bool }

func (zkLock) Supports(string) bool { return false } // Lock has no context, and there is no try
func (zkLock) Reason(err error) string {
	if errors.Is(err, zk.ErrNoNode) {
		return zk.ErrNoNode.Error()
	}
	return why(err)
}

func (l zkLock) Connect(ctx context.Context, spec *worker.Spec) (worker.Client, error) {
	c := &zkClient{cautious: l.cautious, timeout: time.Duration(spec.Timeout), acl: zk.WorldACL(zk.PermAll)}
	ready := make(chan struct{})
	var once sync.Once
	var err error
	var events <-chan zk.Event
	c.conn, events, err = zk.Connect(spec.Servers, c.timeout, zk.WithLogger(silent{}), zk.WithDialer(c.dial), zk.WithEventCallback(func(e zk.Event) {
		switch {
		case e.Type != zk.EventSession:
		case e.State == zk.StateHasSession:
			once.Do(func() { close(ready) })
		case e.State == zk.StateExpired:
			c.lose(true)
		case e.State == zk.StateDisconnected && l.cautious:
			c.lose(false)
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("zk: %w", err)
	}
	c.draining.Go(func() {
		for range events {
		}
	})
	select {
	case <-ready:
		return c, nil
	case <-ctx.Done():
		c.Close()
		return nil, context.Cause(ctx)
	}
}

// silent discards the log of the ZooKeeper client.
type silent struct{}

func (silent) Printf(string, ...any) {}

type zkClient struct {
	conn     *zk.Conn
	cautious bool
	timeout  time.Duration
	acl      []zk.ACL
	draining sync.WaitGroup
	closing  sync.Once

	mu      sync.Mutex // guards what follows
	held    *claim     // nil while no lock is held
	expired int        // sessions
	closed  bool
	wire    net.Conn // the newest connection
	cut     bool     // no further connection may be dialled
}

// dial records the connection, so that Close can close it instead of waiting for it: the handshake on an unanswered connection
// may take 27 s with a T of 4 s.
func (c *zkClient) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	wire, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.Join(zk.ErrClosing, wire.Close())
	}
	c.wire = wire
	return wire, nil
}

// lose notifies the holder of its loss.
func (c *zkClient) lose(session bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if session {
		c.expired++
	}
	if c.held != nil {
		c.held.end(history.Expired)
		c.held = nil
	}
}

func (c *zkClient) Close() {
	c.closing.Do(func() {
		c.mu.Lock()
		held := c.held
		c.held = nil // the end of the connection is not a loss
		c.closed = true
		c.mu.Unlock()
		if held != nil {
			held.end(history.ClientShut)
		}
		c.conn.Close() // waits for the answer for a second
		c.mu.Lock()
		c.cut = true
		if c.wire != nil {
			_ = c.wire.Close() // no request follows
		}
		c.mu.Unlock()
		c.draining.Wait()
	})
}

// Errors of an attempt during which the session was lost, and of one after which the cautious client is not connected.
var (
	errSessionLost = errors.New("session lost while waiting")
	errUnconnected = errors.New("connection lost at the grant")
)

// sessions returns how many sessions have expired, and reports whether the client is closed.
func (c *zkClient) sessions() (expired int, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expired, c.closed
}

func (c *zkClient) Acquire(_ context.Context, _, path string) (worker.Hold, error) {
	before, _ := c.sessions()
	lock := zk.NewLock(c.conn, path, c.acl)
	if err := lock.Lock(); err != nil {
		return nil, &worker.BrokenError{Err: err}
	}
	// The connection forgets a session before it reports that it has expired, and has the next one afterwards: if none has
	// expired below, this is the one in which the node was created, or 0.
	session := c.conn.SessionID()
	c.mu.Lock()
	defer c.mu.Unlock()
	// There was no holder to notify of these losses.
	if c.expired != before {
		return nil, &worker.BrokenError{Err: errSessionLost}
	}
	if c.cautious && c.conn.State() != zk.StateHasSession {
		return nil, &worker.BrokenError{Err: errUnconnected}
	}
	c.held = newClaim()
	node := reflect.ValueOf(lock).Elem().FieldByName("lockPath").String()
	return &zkHold{claim: c.held, client: c, lock: lock, node: node, session: session, expired: before}, nil
}

type zkHold struct {
	*claim
	client  *zkClient
	lock    unlocker
	node    string
	session int64
	expired int // sessions that had expired at the grant
}

// An unlocker is the part of a zk.Lock that a hold needs.
type unlocker interface{ Unlock() error }

func (h *zkHold) Grant() history.Event {
	return history.Event{Node: h.node, Session: history.ID(h.session)}
}

// Release deletes the node, unless the end of the session has done so or will.
func (h *zkHold) Release(context.Context) error {
	h.releasing.Store(true)
	err := h.unlock()
	h.client.mu.Lock()
	defer h.client.mu.Unlock()
	if h.client.held == h.claim {
		h.client.held = nil
	}
	h.end(history.GivenUp)
	return err
}

// unlock deletes the node. It retries, because zk.Lock's Unlock sends one delete and returns its error. After T it closes the
// client, which ends the session and deletes the node. It sends nothing after the session has ended: the node is gone, and the
// request would run in the next session.
func (h *zkHold) unlock() error {
	for giveUp := time.Now().Add(h.client.timeout); ; {
		switch expired, closed := h.client.sessions(); {
		case expired != h.expired:
			return zk.ErrSessionExpired
		case closed:
			return nil // the close was sent; the connection does not report whether it arrived
		}
		err := h.lock.Unlock()
		if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrClosing) || errors.Is(err, zk.ErrSessionExpired) {
			return err
		}
		if time.Now().After(giveUp) {
			h.client.Close()
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
