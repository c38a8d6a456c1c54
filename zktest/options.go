// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"time"
)

// Options are the options of an Ensemble. The zero value of a field means its
// default.
type Options struct {
	// Servers is the number of servers of the ensemble: 1 (the default) to 7. Server 1
	// leads at the start.
	Servers int

	// Tick is ZooKeeper's tickTime, in whole milliseconds: session timeouts are
	// clamped to between 2 and 20 of them, and sessions expire at their boundaries.
	// The default is 500 ms, for session timeouts of 1 s to 10 s.
	Tick time.Duration

	// SyncLimit is the number of ticks for which a server that has lost its leader, or
	// a leader that has lost its quorum, continues to serve. The default is 5.
	SyncLimit int

	// ElectionTime is the duration of an election: after the loss of a leader, no server
	// leads for that long. The default is half a tick.
	ElectionTime time.Duration

	// Addr is the address of the first server: the default is a free port of
	// 127.0.0.1. The other servers take the ports that follow, or free ones.
	Addr string

	// InMemory opens no socket: the servers are reached through Dial, Dialer and
	// Link only. For tests in a testing/synctest bubble, where a socket would stop
	// the clock.
	InMemory bool

	// MaxPacket bounds the bytes of one frame. The default is 1 MiB − 1, as in ZooKeeper.
	MaxPacket int

	// ContainerInterval is the interval, rounded up to ticks, at which empty containers and expired
	// TTL nodes are deleted. The default is ZooKeeper's, one minute.
	ContainerInterval time.Duration

	// HandshakeTimeout bounds the silence of a connection without a handshake: it is
	// closed at the next multiple of HandshakeTimeout after that. The default is
	// ZooKeeper's, 10 s (zookeeper.nio.sessionlessCnxnTimeout).
	HandshakeTimeout time.Duration

	// TTLNodes enables nodes with a time to live: ZooKeeper's extendedTypesEnabled.
	TTLNodes bool

	// TLS, if not nil, makes the servers speak TLS only, on sockets and in memory. It needs a
	// certificate, and ClientAuth if clients must have one. Faults act on frames: the handshake
	// of TLS takes place without them. A client's certificate that was verified, against
	// ClientCAs, gives the identity of scheme x509: its subject, as Java prints it.
	TLS *tls.Config

	// Personality is the service that the servers behave like: the default is ZooKeeper.
	Personality Personality

	// Users are the users who can log in by SASL's mechanism DIGEST-MD5, with their
	// passwords. The default is a server without a configuration of SASL.
	Users map[string]string

	// RequireSASL refuses the requests of connections that have not logged in by SASL, as
	// ZooKeeper does with enforce.auth.enabled=true and enforce.auth.schemes=sasl.
	RequireSASL bool

	// Logger receives the servers' log: the reason why a connection was closed, for
	// instance. The default discards it; Start logs to its test.
	Logger *slog.Logger

	// OnCommit is called for each transaction, in commit order, on its own goroutine.
	// Close returns after the call for the last transaction, so OnCommit must not call
	// Close, nor end its goroutine as a test's FailNow does. Transactions that wait for
	// their call are queued without a bound.
	OnCommit func(Commit)

	_ struct{}
}

// A Personality is a service that speaks ZooKeeper's protocol.
type Personality int

// The personalities.
const (
	ZooKeeper Personality = iota

	// Keeper differs as ClickHouse Keeper does where that can harm a client: each handshake opens a session, also one that
	// presents an existing session, which then ends at its timeout; and a request for a container ends the connection.
	Keeper
)

const (
	maxServers   = 7
	maxSyncLimit = 1 << 20
)

// withDefaults returns the options with their defaults filled in. The error names the
// first invalid value.
func (o *Options) withDefaults() (Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	fail := func(format string, args ...any) (Options, error) {
		return Options{}, fmt.Errorf("zktest: options: "+format, args...)
	}
	setDefault(&c.Servers, 1)
	setDefault(&c.Tick, 500*time.Millisecond)
	setDefault(&c.SyncLimit, 5)
	setDefault(&c.ElectionTime, c.Tick/2)
	setDefault(&c.Addr, "127.0.0.1:0")
	setDefault(&c.MaxPacket, 1<<20-1)
	setDefault(&c.ContainerInterval, time.Minute)
	setDefault(&c.HandshakeTimeout, 10*time.Second)
	setDefault(&c.Logger, slog.New(slog.DiscardHandler))
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
	case c.RequireSASL && len(c.Users) == 0:
		return fail("SASL is required, and there are no users")
	case c.Personality != ZooKeeper && c.Personality != Keeper:
		return fail("personality %d is unknown: must be ZooKeeper or Keeper", c.Personality)
	case c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil && c.TLS.GetConfigForClient == nil:
		return fail("TLS has no certificate")
	}
	c.Users = maps.Clone(c.Users)
	if c.TLS != nil {
		// The tickets are sent unasked: on a connection in memory, server and client would wait
		// for each other to read.
		c.TLS = c.TLS.Clone()
		c.TLS.SessionTicketsDisabled = true
	}
	if _, _, err := splitAddr(c.Addr); err != nil {
		return fail("%v", err)
	}
	return c, nil
}

// splitAddr splits host:port.
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

func setDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
