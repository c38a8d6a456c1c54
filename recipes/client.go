// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/tuning"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// A Client is a connection to one ensemble. When a session is over, the client opens
// the next one. Claims and positions in a queue belong to one session and end with it.
//
// One Client serves a whole process; all its methods are safe for concurrent use.
type Client struct{ engine }

// An engine refers to the internal packages that do the work. It has no exported methods.
type engine = client.Ref

// Connect opens a session with the ensemble of which servers are members:
// host:port each, the port defaulting to 2181. opts may be nil.
//
// An element of servers may also be a connect string as in other ZooKeeper
// configurations, "zk1:2181,zk2:2181/app". Its chroot is the first part of the
// namespace, in front of Options.Namespace, and applies to all elements: a second
// chroot that differs is an error.
//
// Connect returns when the session exists. Once ctx is done, it returns an error that
// names the servers that it could not reach, and why. It returns an error immediately
// if an argument is invalid or a server refuses the credentials. After an error nothing
// is left behind. The client outlives ctx: call Close.
//
// A Client cannot adopt a *zk.Conn of the caller: its promises about the end of a
// session depend on how it makes connections.
func Connect(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	if ctx == nil {
		return nil, &Error{Op: "connect", Err: sentinel.ErrNilContext}
	}
	settings, err := opts.check(servers)
	if err != nil {
		return nil, &Error{Op: "connect", Err: err}
	}
	settings.Tuning = tuning.Of(ctx)
	c, err := client.Connect(ctx, settings)
	if err != nil {
		return nil, err
	}
	return &Client{client.RefTo(c)}, nil
}

// Close ends the client: first its claims, whose contexts are cancelled with the
// cause ErrClosed, then the session, which deletes its nodes. If no server has answered
// that, Close returns ErrUncertain: the nodes may exist until the session expires.
// Close returns when every goroutine of the client has ended, in about a second at
// most, and the trace has been notified of every loss and its last function has
// returned. A second call waits for the same end and returns the same error.
// Close does not wait for work that runs under a claim: release the claim first. If Close overtakes a release while no server can be
// reached, the release returns ErrUncertain; a release that begins later returns
// ErrLost.
//
// A function of the trace must not call Close.
func (c *Client) Close() error { return client.Of(c).Close() }

// Conn returns the ZooKeeper client's connection of the current session, for the
// caller's own requests. It is useless once that session is over: call Conn again.
// Do not close it. The client's namespace does not apply. Nodes that it creates
// as ephemeral are deleted with the session, like the nodes of claims.
//
// Its watches outlast a reconnection, and lose no event, unless the server refuses to set
// them again (ThrottledOp): no caller learns of that. [Node.Watch] does.
func (c *Client) Conn() *zk.Conn { return client.Of(c).Newest().Conn() }

// Path returns the full path of the node at path, an absolute path below the
// client's namespace, for requests on Conn and for people; Path("/") is the
// namespace's own node. It does not check the path.
func (c *Client) Path(path string) string { return zkpath.Full(client.Of(c).Namespace(), path) }

// Owner returns Options.Owner, or its default.
func (c *Client) Owner() string { return client.Of(c).Owner() }

// SessionTimeout returns the session timeout T that the servers granted for the
// newest session.
func (c *Client) SessionTimeout() time.Duration { return client.Of(c).Newest().Timeout() }

// SessionID returns the id of the newest session, the one that the servers log.
func (c *Client) SessionID() int64 { return client.Of(c).Newest().ID() }

// OutstandingNodes returns how many nodes of this client may exist in its session: nodes of
// waiters and holders, of registrations, those whose create was not answered yet, and those
// that are still to be deleted.
func (c *Client) OutstandingNodes() int { return client.Of(c).Newest().Nodes.Outstanding() }

// DroppedEvents returns how many events the trace and the log have missed because
// they were too slow.
func (c *Client) DroppedEvents() int64 { return client.Of(c).Report().Dropped() }
