// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/connectstring"
	"github.com/lockkeeper/lockkeeper/internal/ownerlabel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// DefaultSessionTimeout is the session timeout if Options sets none.
const DefaultSessionTimeout = 10 * time.Second

// Options are the options of a Client. The zero value of a field means its
// default.
type Options struct {
	// SessionTimeout is the session timeout T to request: after that time without
	// contact the ensemble can grant this client's claims to other clients. It is at
	// least one second; the default is 10 s. Servers clamp it to their own bounds, 2
	// and 20 ticks unless configured: Client.SessionTimeout returns the granted one.
	// Choose at least four ticks, or the holder is not notified early enough when a
	// follower or the leader is isolated: the default is for ticks of up to 2.5 s.
	SessionTimeout time.Duration

	// Namespace is put in front of every path that the recipes use, "/team-a", after
	// the chroot of the connect string if there is one. It is created when it is
	// needed, as a container node unless PersistentParents is set.
	Namespace string

	// Owner is the label that other clients see for this client's contenders, unless
	// the options of a lock, an election or a queue have another: at most 4096 bytes.
	// The default is host and process id.
	Owner string

	// ACL is given to every node that is created. The default is open to all.
	// Contenders need READ, CREATE, WRITE and DELETE, on each other's nodes as well.
	// On a parent that another program created, a join without WRITE takes two more
	// requests. Without READ or CREATE it is refused. Without DELETE, nodes stay until
	// the session ends.
	ACL []zk.ACL

	// PersistentParents makes the parents that the client creates persistent nodes, which servers never
	// delete. The default is container nodes, which servers delete some time after their last child: then a Lock
	// that a Kazoo client keeps on the path raises NoNodeError. Set it for every client of such a path. It does not
	// change a parent that exists.
	PersistentParents bool

	// Auth are the credentials to present to each server: see Digest.
	Auth []Auth

	// SASL, if not nil, authenticates the client to each server: see DigestMD5. Connect
	// returns an error immediately if a server refuses the credentials. A client that had
	// a session continues to try, a few times in T once every server has refused them.
	SASL SASL

	// TLS, if not nil, configures TLS connections to the servers. ServerName defaults
	// to the host of each server as the server list has it.
	TLS *tls.Config

	// MaxReply bounds the replies that the client accepts, in bytes: 64 KiB to 1.5 MiB. The default is 0: replies may have any size,
	// and the ZooKeeper client reserves 1.5 MiB for them in each session, beside as much for requests. A bound reserves so much
	// instead, for programs with very many clients. A listing takes 25 to 60 bytes for each contender of a queue. A request whose
	// reply is larger returns an error, so that nothing can be granted on a path with a longer queue; all else goes on. Whether
	// a transaction was carried out, whose reply is larger, is not known. A read through Conn fails with zk.ErrReconfigDisabled then.
	MaxReply int

	// Logger receives what an operator may need to know; the default is slog.Default. While no server can be
	// reached, Connect and the client log the cause after T/4, and then every 30 s.
	// A logger that blocks delays later messages, and Client.Close by 2 s at most.
	Logger *slog.Logger

	// Trace is notified of events in the client; nil for none.
	Trace *Trace

	// Dial makes the connections; the default is a net.Dialer. It is called
	// anew, with the name and not an address, for each attempt. If it ignores ctx,
	// or the Close of its connections blocks, that delays no claim's notification, but
	// its goroutine can outlive Client.Close.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Guard, if not nil, closes the sessions of this process immediately after its death, so that its claims need not expire: see
	// package recipes/guard. Connect returns an error if that would not work.
	Guard Guard

	_ struct{}
}

// A Guard registers sessions with a guardian, which closes them when this process has died: package recipes/guard has one.
type Guard interface {
	// Rehearse returns an error if the guardian cannot close sessions on these servers.
	Rehearse(ctx context.Context, servers []string, timeout time.Duration) error
	// Protect returns nil once the guardian has acknowledged the session.
	Protect(ctx context.Context, servers []string, session int64, password []byte, timeout time.Duration) error
	// Forget is called when the session has ended, as far as the client knows. It must not block.
	Forget(session int64)
	// Guarded returns nil if the guardian has acknowledged the session. It must not block.
	Guarded(session int64) error
}

// Auth is a credential of one of ZooKeeper's authentication schemes.
type Auth struct {
	Scheme string // "digest", "ip", "x509", or a plug-in's
	Data   []byte // in the form that the scheme defines
}

// Digest returns a credential of ZooKeeper's digest scheme. Servers accept any
// password: a wrong one causes zk.ErrNoAuth at the first operation on a node whose
// ACL does not match it.
func Digest(user, password string) Auth {
	return Auth{Scheme: "digest", Data: []byte(user + ":" + password)}
}

func (o *Options) check(servers []string) (*client.Config, error) {
	if o == nil {
		o = &Options{}
	}
	if err := ownerlabel.Check(o.Owner); err != nil {
		return nil, err
	}
	addresses, chroot, err := connectstring.Parse(servers)
	if err != nil {
		return nil, err
	}
	if err := o.checkSession(); err != nil {
		return nil, err
	}
	s := &client.Config{
		Servers:        addresses,
		SessionTimeout: cmp.Or(o.SessionTimeout, DefaultSessionTimeout),
		Namespace:      chroot + o.Namespace,
		Owner:          cmp.Or(o.Owner, ownerlabel.Default()),
		ACL:            slices.Clone(o.ACL),
		Auth:           sessionAuth(o.Auth),
		SASL:           o.SASL,
		TLS:            o.TLS,
		Logger:         cmp.Or(o.Logger, slog.Default()),
		Trace:          o.Trace.hooks(),
		Dial:           o.Dial,
		MaxReply:       o.MaxReply,
		Guard:          o.Guard,
		Containers:     session.Containers{Never: o.PersistentParents},
		Fail:           func(op, path string, err error) error { return &Error{Op: op, Path: path, Err: err} },
		Revoked:        revocationOf,
	}
	if len(s.ACL) == 0 {
		s.ACL = zk.WorldACL(zk.PermAll)
	}
	if s.Dial == nil {
		s.Dial = (&net.Dialer{}).DialContext
	}
	return s, nil
}

// checkSession returns what is wrong with the options of a session and of the nodes that it
// creates, nil if nothing is.
func (o *Options) checkSession() error {
	switch timeout := o.SessionTimeout; {
	case timeout != 0 && timeout < time.Second:
		return fmt.Errorf("session timeout %v is below the minimum of %v", timeout, time.Second)
	case timeout > maxSessionTimeout:
		return fmt.Errorf("session timeout %v is above the maximum of %v", timeout, maxSessionTimeout)
	}
	if o.MaxReply != 0 && (o.MaxReply < minReply || o.MaxReply > maxReply) {
		return fmt.Errorf("largest reply of %d bytes: must be %d to %d, or 0 for any size", o.MaxReply, minReply, maxReply)
	}
	if o.Namespace != "" {
		if err := zkpath.Check(o.Namespace); err != nil {
			return fmt.Errorf("namespace: %w", err)
		}
	}
	for _, a := range o.ACL {
		if a.Scheme == "" || a.Perms <= 0 || a.Perms > zk.PermAll {
			return fmt.Errorf("ACL entry %+v has no scheme, or permissions that do not exist", a)
		}
	}
	for _, a := range o.Auth {
		switch a.Scheme {
		case "":
			return errors.New("credential without a scheme")
		case "sasl":
			return errors.New(`credential of scheme "sasl": use Options.SASL`)
		}
	}
	return nil
}

// Bounds of MaxReply: a listing of a thousand contenders, and what the ZooKeeper client reserves.
const minReply, maxReply = 64 << 10, 1536 << 10

// maxSessionTimeout is the largest value of the protocol's field of milliseconds.
const maxSessionTimeout = (1<<31 - 1) * time.Millisecond

func sessionAuth(auth []Auth) []session.Auth {
	var as []session.Auth
	for _, a := range auth {
		as = append(as, session.Auth(a))
	}
	return as
}
