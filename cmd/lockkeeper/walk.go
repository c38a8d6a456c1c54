// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A listed is a node and its children, as one server sees them.
type listed struct {
	path       string // below the namespace
	stat       *zk.Stat
	contenders []string // names of children
	others     []string // names of the other children
}

// A walk lists all nodes below a path.
type walk struct {
	client *recipes.Client

	nodes    []listed // sorted by path
	unlisted []error  // of nodes that this client may not list
}

// newWalk lists the node at path and all below it: nothing if it does not exist, since servers delete empty containers. It does
// not list contenders, as they have no children, nor the nodes of ZooKeeper itself.
func newWalk(ctx context.Context, client *recipes.Client, path string) (*walk, error) {
	if path != "/" {
		if _, err := recipes.NewNode(client, path); err != nil {
			return nil, usageErrorf("%w", err)
		}
	}
	w := &walk{client: client}
	for level := []string{path}; len(level) > 0; {
		results, err := each(ctx, level, w.list)
		if err != nil {
			return nil, err
		}
		level = nil
		for _, r := range results {
			switch {
			case errors.Is(r.err, zk.ErrNoNode):
				continue
			case errors.Is(r.err, zk.ErrNoAuth):
				w.unlisted = append(w.unlisted, r.err)
				continue
			case r.err != nil:
				return nil, r.err
			}
			w.nodes = append(w.nodes, r.node)
			for _, name := range r.node.others {
				if below := strings.TrimSuffix(r.node.path, "/") + "/" + name; client.Path(below) != "/zookeeper" {
					level = append(level, below)
				}
			}
		}
	}
	slices.SortFunc(w.nodes, func(a, b listed) int { return strings.Compare(a.path, b.path) })
	return w, nil
}

// A listing is the result of one request.
type listing struct {
	node listed
	err  error
}

func (w *walk) list(path string) listing {
	full := w.client.Path(path)
	children, stat, err := w.client.Conn().Children(full)
	node := listed{path: path, stat: stat}
	if err != nil {
		return listing{node, &recipes.Error{Op: "list", Path: full, Err: err}}
	}
	slices.Sort(children)
	for _, name := range children {
		if isContender(name) {
			node.contenders = append(node.contenders, name)
		} else {
			node.others = append(node.others, name)
		}
	}
	return listing{node, nil}
}

// queues returns the nodes that have contenders.
func (w *walk) queues() []listed {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n listed) bool { return len(n.contenders) == 0 })
}

// maxConcurrent bounds the requests in flight of one command.
const maxConcurrent = 32

// each calls f for each item, for several at the same time, and returns the results in the
// order of the items. When ctx is done, it returns ctx's error after the calls in progress.
func each[Item, Result any](ctx context.Context, items []Item, f func(Item) Result) ([]Result, error) {
	results := make([]Result, len(items))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(maxConcurrent, len(items)) {
		workers.Go(func() {
			for i := range next {
				results[i] = f(items[i])
			}
		})
	}
	for i := range items {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}
