// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Node is a node whose data is a record. A node that is missing or empty has the zero record. A Node is safe for
// concurrent use.
type Node[T any] struct {
	*node.Node
	kind Kind[T]

	// Refuse, if not nil, returns why a node that exists must not be used, whatever its data is.
	Refuse func(ctx context.Context, data []byte, stat *zk.Stat) error
}

// New returns the node at path, as recipes.NewNode does.
func New[T any](of *recipes.Client, path string, kind Kind[T]) (*Node[T], error) {
	n, err := node.New(of, path)
	if err != nil {
		return nil, err
	}
	return &Node[T]{Node: n, kind: kind}, nil
}

// Read returns the record, as recipes.Node.Read does the data. For the error of other data, IsForeign reports true.
func (n *Node[T]) Read(ctx context.Context) (v T, err error) {
	data, stat, err := n.Node.Read(ctx)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return v, err
	}
	return n.of(ctx, data, stat)
}

// Watch is Read, and watches for changes as recipes.Node.Watch does, also if the node has other data.
func (n *Node[T]) Watch(ctx context.Context) (v T, changed <-chan struct{}, err error) {
	content, err := n.Node.Watch(ctx)
	if err != nil {
		return v, nil, err
	}
	v, err = n.of(ctx, content.Data, content.Stat)
	return v, content.Changed, err
}

// of returns the record that a read has returned. Its error names the path.
func (n *Node[T]) of(ctx context.Context, data []byte, stat *zk.Stat) (T, error) {
	v, err := n.decode(ctx, data, stat)
	if err != nil {
		err = &recipes.Error{Op: "read", Path: n.Path(), Err: err}
	}
	return v, err
}

func (n *Node[T]) decode(ctx context.Context, data []byte, stat *zk.Stat) (v T, err error) {
	if stat != nil && n.Refuse != nil {
		err = n.Refuse(ctx, data, stat)
	}
	if err != nil || stat == nil || len(data) == 0 {
		return v, err
	}
	return n.kind.Decode(data)
}

// Update is recipes.Node.Update for records: next returns the record to write, or nil if the node needs no write.
func (n *Node[T]) Update(ctx context.Context, c *recipes.Claim, next func(v T, unanswered bool) (*T, error)) (version int32, err error) {
	return n.Node.Update(ctx, c, func(data []byte, stat *zk.Stat, unanswered bool) ([]byte, error) {
		v, err := n.decode(ctx, data, stat)
		if err != nil {
			return nil, err
		}
		written, err := next(v, unanswered)
		if err != nil || written == nil {
			return nil, err
		}
		return n.kind.Encode(*written)
	})
}

// Create creates the node with that record unless it exists, as recipes.Node.Create does.
func (n *Node[T]) Create(ctx context.Context, v T) error {
	data, err := n.kind.Encode(v)
	if err != nil {
		return err
	}
	return n.Node.Create(ctx, data)
}

// Replace writes the record if the node has that version, as node.Node.Replace does.
func (n *Node[T]) Replace(ctx context.Context, v T, version int32) error {
	data, err := n.kind.Encode(v)
	if err != nil {
		return err
	}
	return n.Node.Replace(ctx, data, version)
}
