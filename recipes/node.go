// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// A Node is one node that outlives sessions and holds state: holders write it under a
// claim, and any client may read it. It is safe for concurrent use.
type Node struct {
	engine
	path string // namespace included
}

// NewNode returns the node at path, an absolute path to which the client's
// namespace is added. It sends no request.
func NewNode(c *Client, path string) (*Node, error) {
	if c == nil {
		return nil, &Error{Op: "new node", Err: errors.New("client is nil")}
	}
	e := client.Of(c)
	full, err := e.Place(path)
	if err != nil {
		return nil, &Error{Op: "new node", Err: err}
	}
	return &Node{client.RefTo(e), full}, nil
}

// Path returns the path of the node, namespace included.
func (n *Node) Path() string { return n.path }

// Read returns the node's data and Stat, as the server that this client is
// connected to sees it; that server may lag. The error of a missing node is
// zk.ErrNoNode.
func (n *Node) Read(ctx context.Context) (data []byte, stat *zk.Stat, err error) {
	err = client.Of(n).Read(ctx, n.path, func(s *client.Session) error {
		data, stat, err = s.Get(ctx, n.path)
		return err
	})
	return data, stat, err
}

// A Content is the content of a node at one moment.
type Content struct {
	Data    []byte
	Stat    *zk.Stat        // nil if the node is missing
	Changed <-chan struct{} // closed when the content may have changed
}

// Watch reads the node as Read does, and watches for changes, including the creation
// of a missing node. Changed is also closed when the session is over.
func (n *Node) Watch(ctx context.Context) (content Content, err error) {
	err = client.Of(n).Read(ctx, n.path, func(s *client.Session) error {
		content, err = n.watch(ctx, s)
		return err
	})
	return content, err
}

// watch reads after it has set the watch: a write in between triggers the watch.
func (n *Node) watch(ctx context.Context, s *client.Session) (Content, error) {
	w, err := s.Watch(ctx, n.path, session.WatchNode)
	if errors.Is(err, zk.ErrNoNode) {
		w, err = s.Watch(ctx, n.path, session.WatchCreation)
	}
	if err != nil {
		return Content{}, err
	}
	data, stat, err := s.Get(ctx, n.path)
	if errors.Is(err, zk.ErrNoNode) {
		return Content{Changed: w.Fired()}, nil
	}
	if err != nil {
		return Content{}, err
	}
	return Content{data, stat, w.Fired()}, nil
}

// errOvertaken reports that another write changed a node after it was read.
var errOvertaken = errors.New("node was changed by another write after it was read")

// Update writes the node under a claim of the same client. It reads the node, calls
// next for the new data, and writes that in one transaction with checks that the
// claim is held and that the node has not been written since the read. If it has
// been, Update begins again. It returns the version of the node that it wrote, or
// that next accepted as it is.
//
// next receives the node's data, and a Stat that is nil if the node is missing. Update
// writes the data that next returns. Nil means that the node needs no write. If next
// returns an error, Update returns it and writes nothing. Update calls next again after
// each refused write, and after a write whose answer did not arrive. That write may
// have been carried out, so next must recognise its own data. unanswered reports
// whether there was such a write.
//
// Update creates a missing node, with those above it. After an error nothing was
// written, unless it is ErrUncertain: the answer to a write did not arrive, and
// no later read shows that the write was carried out.
func (n *Node) Update(ctx context.Context, c *Claim, next func(data []byte, stat *zk.Stat, unanswered bool) ([]byte, error)) (version int32, err error) {
	fail := func(err error) (int32, error) { return 0, &Error{Op: "update", Path: n.path, Err: err} }
	switch {
	case ctx == nil:
		return fail(sentinel.ErrNilContext)
	case c == nil:
		return fail(errors.New("claim is nil"))
	case claim.Of(c).Session().Client() != client.Of(n):
		return fail(errors.New("the claim belongs to another client: a transaction can check the claim's node only in its own ensemble"))
	}
	if err := c.Err(); err != nil {
		return fail(err)
	}
	ctx, cancel := c.Context(ctx)
	defer cancel()
	var lost error // the last error of a write whose answer did not arrive
	for {
		version, err := n.update(ctx, c, func(data []byte, stat *zk.Stat) ([]byte, error) {
			return next(data, stat, lost != nil)
		})
		switch {
		case err == nil:
			return version, nil
		case errors.Is(err, errOvertaken):
			continue
		case errors.Is(err, sentinel.ErrUncertain) && session.Retryable(err) && ctx.Err() == nil:
			lost = err
			continue
		case errors.Is(err, sentinel.ErrSessionExpired) && !errors.Is(err, sentinel.ErrUncertain):
			// A read can report the end of the session before the session has ended its claims.
			if ended := c.Err(); ended != nil {
				err = ended
			}
		}
		if lost != nil && !errors.Is(err, sentinel.ErrUncertain) {
			err = fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
		}
		return fail(sentinel.WithCtx(ctx, err))
	}
}

// update is one attempt of Update.
func (n *Node) update(ctx context.Context, c *Claim, next func([]byte, *zk.Stat) ([]byte, error)) (version int32, err error) {
	h := claim.Of(c)
	data, stat, err := h.Session().Get(ctx, n.path)
	missing := errors.Is(err, zk.ErrNoNode)
	if err != nil && !missing {
		return 0, err
	}
	if missing {
		data, stat = nil, nil
	}
	written, err := next(data, stat)
	switch {
	case err != nil:
		return 0, err
	case written == nil && missing:
		return 0, &Error{Op: "read", Path: n.path, Err: zk.ErrNoNode}
	case written == nil:
		return stat.Version, nil
	case missing:
		return 0, n.create(ctx, h, written)
	}
	responses, err := h.Commit(ctx, "", []any{&zk.SetDataRequest{Path: n.path, Data: written, Version: stat.Version}})
	switch {
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return 0, errOvertaken
	case err != nil:
		return 0, err
	}
	return responses[0].Stat.Version, nil
}

// create creates the node, whose version is then 0.
func (n *Node) create(ctx context.Context, c *claim.Claim, data []byte) error {
	_, err := c.Commit(ctx, "", []any{&zk.CreateRequest{Path: n.path, Data: data, Acl: c.Session().Client().ACL()}})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return errOvertaken
	case errors.Is(err, zk.ErrNoNode) && zkpath.Parent(n.path) != "/":
		if err := c.Session().CreateParents(ctx, zkpath.Parent(n.path), nil); err != nil {
			return err
		}
		return errOvertaken // by this client
	}
	return err
}

// Create creates the node with that data, with missing nodes above it as container nodes, unless it exists: then it changes
// nothing. A node that it creates is persistent.
//
// A create that was not answered is repeated. If another client deletes the node in between, the node then exists again. After
// ErrUncertain, ctx ended before an answer came.
func (n *Node) Create(ctx context.Context, data []byte) error {
	c := client.Of(n)
	return c.Create(ctx, n.path, data, c.ACL())
}
