// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Barrier holds back processes while it is set. It has no state in this process. It is safe for
// concurrent use.
type Barrier struct {
	node *node.Node
}

// Options are the options of a Barrier. There are none yet.
type Options struct{ _ struct{} }

// New returns the barrier at path, an absolute path to which the client's namespace is added. It
// sends no request. opts may be nil. The barrier is set while the node at path exists. The methods refuse a path that is the queue of a lock or an
// election, with recipes.ErrQueue, and change nothing.
func New(client *recipes.Client, path string, _ *Options) (*Barrier, error) {
	if err := zkpath.CheckRecipe(path); err != nil {
		return nil, &recipes.Error{Op: "new barrier", Err: err}
	}
	node, err := node.New(client, path)
	if err != nil {
		return nil, fmt.Errorf("new barrier: %w", err)
	}
	return &Barrier{node}, nil
}

// Path returns the path of the barrier's node, namespace included.
func (b *Barrier) Path() string { return b.node.Path() }

// Set sets the barrier, and changes nothing if it is set. It stays set when this process ends: the
// node is persistent. Missing nodes above it are created, as container nodes.
//
// A Set whose answer is lost is repeated, and so sets the barrier again if another process has removed
// it in between. After recipes.ErrUncertain, ctx ended before the answer came, and the barrier may be
// set.
func (b *Barrier) Set(ctx context.Context) error {
	err := b.node.Create(ctx, nil)
	if err == nil { // also if the node existed
		err = b.node.RefuseQueue(ctx)
	}
	if err != nil {
		return fmt.Errorf("set barrier: %w", err)
	}
	return nil
}

// Remove removes the barrier, whichever process has set it, and lets those pass that wait. It changes
// nothing if the barrier is not set.
//
// A Remove whose answer is lost does not remove a barrier that another process has set since. After
// recipes.ErrUncertain, ctx ended before the answer came, and the barrier may be removed.
func (b *Barrier) Remove(ctx context.Context) error {
	err := b.node.RefuseQueue(ctx)
	if err == nil {
		err = b.node.Delete(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove barrier: %w", err)
	}
	return nil
}

// Wait waits until the barrier is not set, and returns immediately if it is not. It returns nil
// only if the barrier was not set at some instant after the call began; it may be set again by the
// time that Wait returns.
//
// A barrier that is removed and set again immediately lets those pass that waited before: those whose first two round trips were
// over. A Wait that has just begun can miss it, and then waits for the next Remove.
//
// Wait continues across disconnections and sessions. Its error is ctx's, recipes.ErrClosed, or that
// with which a server refused.
func (b *Barrier) Wait(ctx context.Context) error {
	err := b.node.RefuseQueue(ctx)
	if err == nil {
		err = b.node.AwaitDeleted(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait for barrier: %w", err)
	}
	return nil
}
