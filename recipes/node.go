// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A Node is one node that outlives sessions and holds state: what its holders
// write under a claim, and everybody may read. It is safe for concurrent use.
type Node struct {
	client *Client
	path   string // namespace included
}

// NewNode returns the node at path, an absolute path to which the client's
// namespace is added. It asks no server.
func NewNode(client *Client, path string) (*Node, error) {
	if client == nil {
		return nil, &Error{Op: "new node", Err: errors.New("client is nil")}
	}
	if err := checkPath(path); err != nil {
		return nil, &Error{Op: "new node", Err: err}
	}
	return &Node{client: client, path: client.settings.namespace + path}, nil
}

// Path is the path of the node, namespace included.
func (n *Node) Path() string { return n.path }

// Read returns the node's data and Stat, as the server that this client is
// connected to sees it, which may be somewhat behind. The error of a missing node
// is zk.ErrNoNode.
func (n *Node) Read(ctx context.Context) (data []byte, stat *zk.Stat, err error) {
	err = n.client.look(ctx, n.path, func(s *queueSession) error {
		data, stat, err = s.Get(ctx, n.path)
		return err
	})
	return data, stat, err
}

// A Content is what a node holds, at a moment.
type Content struct {
	Data    []byte
	Stat    *zk.Stat        // nil if the node is missing
	Changed <-chan struct{} // closed when that may have changed
}

// Watch is Read, and watches whether that changes, also the creation of a missing
// node. Changed is closed, too, when the session is over.
func (n *Node) Watch(ctx context.Context) (content Content, err error) {
	err = n.client.look(ctx, n.path, func(s *queueSession) error {
		content, err = n.watch(ctx, s)
		return err
	})
	return content, err
}

// watch reads after the watch is set: what was written in between trips it.
func (n *Node) watch(ctx context.Context, s *queueSession) (Content, error) {
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

// errOvertaken says that somebody else has written a node since it was read.
var errOvertaken = errors.New("written by somebody else meanwhile")

// Update writes the node under a claim of the same client: it reads it, has next
// say what is to be written, and writes that in one transaction with checks that
// the claim is held and that nobody has written the node since. If somebody has,
// it begins again. It returns the version of the node that next was content with,
// or that it wrote.
//
// next gets what the node holds, and a Stat that is nil if it is missing. What it
// returns is written; nil says that the node holds already what it should; its
// error is Update's, and nothing is written. It is called again after each write
// that was refused, and after one whose answer did not come back, which may have
// been carried out: next has to know its own data again. unanswered says that
// there was one of those.
//
// A missing node is made, with those above it. On an error nothing was written,
// except if it is an ErrUncertain: the answer to a write did not come back, and
// nothing that was read afterwards shows that it was carried out.
func (n *Node) Update(ctx context.Context, c *Claim, next func(data []byte, stat *zk.Stat, unanswered bool) ([]byte, error)) (version int32, err error) {
	fail := func(err error) (int32, error) { return 0, &Error{Op: "update", Path: n.path, Err: err} }
	switch {
	case ctx == nil:
		return fail(errNilContext)
	case c == nil:
		return fail(errors.New("claim is nil"))
	case c.session.settings != n.client.settings:
		return fail(errors.New("the claim is one of another client: a transaction can check its node in its own ensemble only"))
	}
	if err := c.Err(); err != nil {
		return fail(err)
	}
	ctx, cancel := c.Context(ctx)
	defer cancel()
	var lost error // the last answer that did not come back
	for {
		version, err := n.update(ctx, c, func(data []byte, stat *zk.Stat) ([]byte, error) {
			return next(data, stat, lost != nil)
		})
		switch {
		case err == nil:
			return version, nil
		case errors.Is(err, errOvertaken):
			continue
		case errors.Is(err, ErrUncertain) && session.BrokenOff(err) && ctx.Err() == nil:
			lost = err
			continue
		}
		if lost != nil && !errors.Is(err, ErrUncertain) {
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		return fail(withCtx(ctx, err))
	}
}

// update is Update, once.
func (n *Node) update(ctx context.Context, c *Claim, next func([]byte, *zk.Stat) ([]byte, error)) (version int32, err error) {
	data, stat, err := c.session.Get(ctx, n.path)
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
		return 0, n.create(ctx, c, written)
	}
	responses, err := c.commit(ctx, "", []any{&zk.SetDataRequest{Path: n.path, Data: written, Version: stat.Version}})
	switch {
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return 0, errOvertaken
	case err != nil:
		return 0, err
	}
	return responses[0].Stat.Version, nil
}

// create makes the node, whose version then is 0.
func (n *Node) create(ctx context.Context, c *Claim, data []byte) error {
	_, err := c.commit(ctx, "", []any{&zk.CreateRequest{Path: n.path, Data: data, Acl: c.session.settings.acl}})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return errOvertaken
	case errors.Is(err, zk.ErrNoNode) && parentOf(n.path) != "/":
		if err := c.session.CreateParents(ctx, parentOf(n.path), nil); err != nil {
			return err
		}
		return errOvertaken // by ourselves
	}
	return err
}
