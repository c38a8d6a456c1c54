// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// Options are the options of an Ensemble. The zero value of a field means its
// default.
type Options struct {
	// Servers is how many servers the ensemble has: 1 (the default) to 7. Server 0
	// leads at the start.
	Servers int

	// Tick is ZooKeeper's tickTime, in whole milliseconds: session timeouts are
	// clamped to between 2 and 20 of them, and sessions expire at their boundaries.
	// The default is 500 ms, for session timeouts of 1 s to 10 s.
	Tick time.Duration

	// SyncLimit is for how many ticks a server that has lost its leader, or a
	// leader that has lost its quorum, goes on serving. The default is 5.
	SyncLimit int

	// ElectionTime is how long nobody leads after a leader was lost. The default
	// is half a tick.
	ElectionTime time.Duration

	// Addr is where the first server listens: the default is a free port of
	// 127.0.0.1. The others take the ports that follow, or free ones.
	Addr string

	// InMemory opens no socket: the servers are reached through Dial, Dialer and
	// Link only. For tests in a testing/synctest bubble, where a socket would stop
	// the clock.
	InMemory bool

	// MaxPacket bounds the bytes of one frame. The default is that of ZooKeeper's
	// jute.maxbuffer, 1 MiB − 1.
	MaxPacket int

	// ContainerInterval is how often empty containers and outdated TTL nodes are
	// deleted. The default is ZooKeeper's, one minute.
	ContainerInterval time.Duration

	// HandshakeTimeout is how long a connection without a handshake may be silent: it is
	// closed at the next multiple of HandshakeTimeout after that. The default is
	// ZooKeeper's, 10 s (zookeeper.nio.sessionlessCnxnTimeout).
	HandshakeTimeout time.Duration

	// TTLNodes allows nodes with a time to live: ZooKeeper's extendedTypesEnabled.
	TTLNodes bool

	// Logger takes what the servers have to say: why a connection was closed, for
	// instance. The default discards it; Start logs to its test.
	Logger *slog.Logger

	// OnCommit is told of each transaction, in their order, on a goroutine of its
	// own. Close returns once it was told of all, so it must not call Close, nor end
	// its goroutine as a test's FailNow does. What it has not been told of yet is
	// kept, however much that is.
	OnCommit func(Commit)

	_ struct{}
}

const (
	maxServers   = 7
	maxSyncLimit = 1 << 20
)

// checked returns the options with their defaults filled in, or says which value
// is wrong.
func (o *Options) checked() (Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	fail := func(format string, args ...any) (Options, error) {
		return Options{}, fmt.Errorf("zktest: "+format, args...)
	}
	whenZero(&c.Servers, 1)
	whenZero(&c.Tick, 500*time.Millisecond)
	whenZero(&c.SyncLimit, 5)
	whenZero(&c.ElectionTime, c.Tick/2)
	whenZero(&c.Addr, "127.0.0.1:0")
	whenZero(&c.MaxPacket, 1<<20-1)
	whenZero(&c.ContainerInterval, time.Minute)
	whenZero(&c.HandshakeTimeout, 10*time.Second)
	whenZero(&c.Logger, slog.New(slog.DiscardHandler))
	switch {
	case c.Servers < 1 || c.Servers > maxServers:
		return fail("%d servers: must be 1 to %d", c.Servers, maxServers)
	case c.Tick < time.Millisecond || c.Tick%time.Millisecond != 0 || c.Tick > time.Hour:
		return fail("tick %v: must be whole milliseconds, from 1ms to 1h", c.Tick)
	case c.SyncLimit < 1 || c.SyncLimit > maxSyncLimit:
		return fail("sync limit %d: must be 1 to %d", c.SyncLimit, maxSyncLimit)
	case c.ElectionTime < 0:
		return fail("election time %v is negative", c.ElectionTime)
	case c.MaxPacket < 1024 || c.MaxPacket > 1<<30:
		return fail("packet limit %d: must be 1 KiB to 1 GiB", c.MaxPacket)
	case c.ContainerInterval < 0:
		return fail("container interval %v is negative", c.ContainerInterval)
	case c.HandshakeTimeout < 0:
		return fail("handshake timeout %v is negative", c.HandshakeTimeout)
	}
	if _, _, err := splitAddr(c.Addr); err != nil {
		return fail("%v", err)
	}
	return c, nil
}

// splitAddr takes host:port apart.
func splitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("address %q is not host:port", addr)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("address %q has no valid port", addr)
	}
	return host, port, nil
}

func whenZero[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
