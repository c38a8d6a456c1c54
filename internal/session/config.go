// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// A Config defines how a session is opened, and the receiver of its events. Every field but
// Auth, SASL, TLS, IsFirst and Heartbeat is required.
type Config struct {
	Servers   []string      // host:port; names are resolved at each dial
	Timeout   time.Duration // T to ask for
	ACL       []zk.ACL      // of the parents that CreateParents makes
	Auth      []Auth
	SASL      SASL        // nil: none
	TLS       *tls.Config // nil: none
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)
	IsFirst   bool          // its client had no session before: credentials that are refused end it
	Heartbeat time.Duration // from one heartbeat to the next; 0: T/6
	MaxReply  int           // bytes of a reply, whose buffer has this size; 0: any number, and 1.5 MiB at first

	// Wrap returns the error of an operation on path in the form that the library returns.
	Wrap func(op, path string, err error) error

	// Find searches parent for nodes, whose create was not answered, and returns the
	// paths of those that exist by nonce. A node that it does not return was never
	// created, and never will be.
	Find func(ctx context.Context, parent string, nodes []*nodes.Node) (paths map[string]string, err error)

	// Revoked returns why the data of an overwritten node ends what was granted on it, or nil
	// if the data gives no reason.
	Revoked func(data []byte) error

	Events Events
	Logger zk.Logger // of the ZooKeeper client

	Containers *Containers // shared by all sessions of a client
}

// Auth is a credential of one of ZooKeeper's authentication schemes.
type Auth struct {
	Scheme string
	Data   []byte
}

// SASL is recipes.SASL.
type SASL interface {
	Authenticate(ctx context.Context, host string, exchange func(token []byte) (answer []byte, err error)) error
}

// Events are notified of what happens in a session. Their methods must not block.
type Events interface {
	// Attached is called when another server serves the session, Detached when the
	// connection to its server ended.
	Attached(id int64, server string)
	Detached(id int64, server string)
	// Changed is called after either, with the current Status.
	Changed(now Status)
	// Outage is called when no server has served the session for T/4, OutageEnded when
	// one does again.
	Outage(lasted time.Duration, why error)
	OutageEnded(server string, lasted time.Duration)
	// Heartbeat is called when a heartbeat was answered, or has failed.
	Heartbeat(roundTrip time.Duration, err error)
	// Proved is called when a heartbeat was answered that was sent while something was
	// granted, with the time that was left until the deadline before the answer moved it.
	Proved(left, timeout time.Duration)
	// Undeleted is called when a node could not be deleted yet.
	Undeleted(n *nodes.Node, err error)
	// Stuck is called when code that may block has not returned after the session's end.
	Stuck()
}

// A Status is the state of a session at one instant.
type Status struct {
	ID       int64
	Timeout  time.Duration // T
	Attached bool          // a server serves the session
	Server   string        // serves the session, or did last
	Since    time.Time     // when Attached became what it is
	Proof    time.Time     // when the last proof was sent; zero if there was none
	Ended    error         // why the session is over, nil while it is not
}
