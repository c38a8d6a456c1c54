// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Options are the options of a Replica. The zero value of a field means its default.
type Options struct {
	// Logger receives what an operator may need to know; the default is slog.Default.
	Logger *slog.Logger

	// Audit is called after each action of this replica that changed a lock, on the
	// goroutine of the request.
	Audit func(Event)

	// ACL is given to the nodes of leases: READ to all contenders, WRITE to the service
	// alone. The default is the client's.
	ACL []zk.ACL

	// MaxTTL is the longest TTL that a request may ask for. The default is 1 h; the
	// shortest is 1 s.
	MaxTTL time.Duration

	// Sweep is the path of a service's locks. One of its replicas, which they elect, looks
	// there for leases whose observers have all disappeared, every 10 minutes and when a
	// replica disappears. Empty: this replica takes no part.
	Sweep string

	_ struct{}
}

// A Request asks for a lease. Principal, Owner and RequestID identify it: the same request
// that is sent again, to any replica, gets the same lease while that lives.
type Request struct {
	Path                        string // of the lock, below the client's namespace
	Principal, Owner, RequestID string
	TTL, Wait                   time.Duration // Wait 0: do not wait
	Unbroken                    bool          // wait in one call for as long as Wait, instead of 20 s at most
	Reentrant                   bool          // another request of this principal and owner may share the lease
	Metadata                    map[string]string
}

// A Grant is a lease that is held.
type Grant struct {
	Path, Owner string
	Ticket      Ticket
	Token       fencing.Token
	TTL         time.Duration
	Valid       time.Duration // from the sending of the caller's request
	Repeated    bool          // an earlier call may have been granted the lease
	Waited      time.Duration // of the time that the call took: behind other contenders
	Expires     time.Time     // informational, by the clock of this process
}

// A Ticket names a lease and the request that was granted it. This package trusts tickets:
// a service authenticates every field.
type Ticket struct {
	Path, Node, Principal, Owner string
	Request                      string // opaque: derived from the RequestID
}

// A Mode is a way to force a release.
type Mode int

// The modes.
const (
	Safe Mode = iota // notify the holder, and wait until it must have stopped
	Now              // delete the node: only a resource that checks the token is protected
)

// A Force is a request to release a lock without its holder.
type Force struct {
	Path       string
	Token      fencing.Token // of the holder, so that a repeat cannot end the lease of its successor. 0: of any
	By, Reason string
	Mode       Mode
}

// Forced is what a forced release did.
type Forced struct {
	Node      string // name of the contender's node
	Token     fencing.Token
	Notified  bool // the holder is notified, and the node is deleted later
	TokenOnly bool // the node is deleted, and the holder may go on: only the token protects
}

// A Status is the queue of one path.
type Status struct {
	Path       string
	Contenders []Contender // the front first, 16 at most
	More       int         // contenders behind those
}

// An Event is one action of a replica that changed a lock.
type Event struct {
	Time                        time.Time
	Action                      Action
	Path, Node                  string
	Principal, Owner, RequestID string
	Token                       fencing.Token
	Reason                      string
}

// An Action is the kind of an Event.
type Action string

// The actions.
const (
	Granted       Action = "granted"
	Renewed       Action = "renewed"
	Released      Action = "released"
	ForceReleased Action = "force-released"
)
